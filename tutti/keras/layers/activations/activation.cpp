#include "tutti/keras/layers/activations/activation.h"

#include <ATen/ExpandUtils.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/activations/activation_internal.h"
#include "tutti/keras/layers/axis.h"

namespace tutti::keras::layers {
namespace {

class ActivationImpl : public LayerImpl {
 public:
  ActivationImpl(std::string type, std::string name, const activations::Activation& activation)
      : LayerImpl(std::move(type), std::move(name)), activation_(activation) {}

  Tensor call(const Tensor& x, const CallOptions&) const override { return activation_(x); }
  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape shape = input_shape;
    if (activation_.parametrized == activations::glu.parametrized) {
      const auto axis = static_cast<int64_t>(activation_.parameters[0]);
      int64_t& extent = shape[static_cast<size_t>(axis_of(*this, axis, input_shape))];
      if (extent != kUnknown) extent /= 2;
    }
    return shape;
  }
  bool supports_masking() const override { return true; }

 private:
  activations::Activation activation_;
};

// Hidden elements count for nothing, and become 0.
class SoftmaxImpl : public LayerImpl {
 public:
  explicit SoftmaxImpl(const SoftmaxOptions& options) : LayerImpl("Softmax", options.name), axis_(options.axis) {}

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    const int64_t axis = axis_of(*this, axis_, x.sizes());
    const Tensor mask = options.mask();
    if (!mask.defined()) return x.softmax(axis);
    if (!at::is_expandable_to(mask.sizes(), x.sizes()))
      refuse(str("the mask has shape ", to_string(mask.sizes()), "; it cannot be repeated to the input's, ",
                 to_string(x.sizes())));
    const Tensor hidden = mask.logical_not();
    const double lowest = x.scalar_type() == at::kHalf ? -3e4 : -1e9;  // Keras's
    return x.masked_fill(hidden, lowest).softmax(axis).masked_fill(hidden, 0);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    (void)axis_of(*this, axis_, input_shape);
    return input_shape;
  }
  InputCast input_cast() const override { return InputCast::numbers; }
  bool supports_masking() const override { return true; }

 private:
  int64_t axis_;
};

}  // namespace

std::shared_ptr<LayerImpl> make_activation_layer(std::string type, std::string name,
                                                 const activations::Activation& activation) {
  return std::make_shared<ActivationImpl>(std::move(type), std::move(name), activation);
}

Activation::Activation(const activations::Activation& activation, std::string name)
    : Layer(make_activation_layer("Activation", std::move(name), activation), activation) {}

Softmax::Softmax(const SoftmaxOptions& options) : Layer(std::make_shared<SoftmaxImpl>(options), options) {}

}  // namespace tutti::keras::layers
