#include "tutti/keras/layers/activations/activation.h"

#include <utility>

#include "tutti/keras/layers/activations/activation_internal.h"

namespace tutti::keras::layers {
namespace {

class ActivationImpl : public LayerImpl {
 public:
  ActivationImpl(std::string type, std::string name, const activations::Activation& activation)
      : LayerImpl(std::move(type), std::move(name)), activation_(activation) {}

  Tensor call(const Tensor& x, const CallOptions&) const override { return activation_(x); }
  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

 private:
  activations::Activation activation_;
};

}  // namespace

std::shared_ptr<LayerImpl> make_activation_layer(std::string type, std::string name,
                                                 const activations::Activation& activation) {
  return std::make_shared<ActivationImpl>(std::move(type), std::move(name), activation);
}

Activation::Activation(const activations::Activation& activation, std::string name)
    : Layer(make_activation_layer("Activation", std::move(name), activation)) {}

Softmax::Softmax(const SoftmaxOptions& options)
    : Layer(make_activation_layer("Softmax", options.name, activations::Softmax(options.axis))) {}

}  // namespace tutti::keras::layers
