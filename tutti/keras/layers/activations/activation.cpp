#include "tutti/keras/layers/activations/activation.h"

namespace tutti::keras::layers {
namespace {

class ActivationImpl : public LayerImpl {
 public:
  ActivationImpl(const activations::Activation& activation, std::string name)
      : LayerImpl("Activation", std::move(name)), activation_(activation) {}

  Tensor call(const Tensor& x, const CallOptions&) const override { return activation_(x); }
  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

 private:
  activations::Activation activation_;
};

}  // namespace

Activation::Activation(const activations::Activation& activation, std::string name)
    : Layer(std::make_shared<ActivationImpl>(activation, std::move(name))) {}

}  // namespace tutti::keras::layers
