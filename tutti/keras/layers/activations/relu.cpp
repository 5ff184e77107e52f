#include "tutti/keras/layers/activations/relu.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/activations/activation_internal.h"

namespace tutti::keras::layers {
namespace {

std::shared_ptr<LayerImpl> make_relu(const ReLUOptions& options) {
  auto layer = make_activation_layer(
      "ReLU", options.name,
      activations::ReLU(
          {.negative_slope = options.negative_slope, .max_value = options.max_value, .threshold = options.threshold}));
  if (!(options.max_value >= 0 && options.negative_slope >= 0 && options.threshold >= 0))
    layer->refuse(str("max_value ", options.max_value, ", negative_slope ", options.negative_slope, ", threshold ",
                      options.threshold, "; none may be negative"));
  return layer;
}

std::shared_ptr<LayerImpl> make_leaky_relu(const LeakyReLUOptions& options) {
  auto layer = make_activation_layer("LeakyReLU", options.name, activations::LeakyReLU(options.negative_slope));
  if (!(options.negative_slope >= 0))
    layer->refuse(str("negative_slope is ", options.negative_slope, "; it may not be negative"));
  return layer;
}

class PReLUImpl : public LayerImpl {
 public:
  explicit PReLUImpl(const PReLUOptions& options) : LayerImpl("PReLU", options.name), options_(options) {
    if (std::ranges::any_of(options_.shared_axes, [](int64_t axis) { return axis < 1; }))
      refuse(str("shared_axes is ", str_list(options_.shared_axes), "; axes count from 1, the batch being 0"));
  }

  void build(const Shape& input_shape) override {
    LayerImpl::build(input_shape);
    Shape shape(input_shape.begin() + 1, input_shape.end());
    for (const int64_t axis : options_.shared_axes) shape[static_cast<size_t>(axis - 1)] = 1;
    if (std::ranges::count(shape, kUnknown) > 0)
      refuse(str("the input has shape ", to_string(input_shape),
                 "; what is unknown of it must be one of shared_axes when the layer is built"));
    alpha_ = add_weight("alpha", shape,
                        {.initializer = options_.alpha_initializer,
                         .regularizer = options_.alpha_regularizer,
                         .constraint = options_.alpha_constraint});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (!fits(x.sizes()))
      refuse(str("the input has shape ", to_string(x.sizes()), "; the layer was built for slopes of shape ",
                 to_string(alpha_.sizes())));
    return x.relu() - alpha_ * (-x).relu();
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    const auto rank = static_cast<int64_t>(input_shape.size());
    if (rank < 1 || std::ranges::any_of(options_.shared_axes, [&](int64_t axis) { return axis >= rank; }))
      refuse(str("the input has shape ", to_string(input_shape), "; it lacks one of shared_axes ",
                 str_list(options_.shared_axes)));
    return input_shape;
  }
  bool supports_masking() const override { return true; }

 private:
  bool fits(at::IntArrayRef shape) const {
    if (static_cast<int64_t>(shape.size()) != alpha_.dim() + 1) return false;
    for (size_t i = 1; i < shape.size(); ++i) {
      const int64_t extent = alpha_.sizes()[i - 1];
      if (extent != shape[i] && std::ranges::count(options_.shared_axes, static_cast<int64_t>(i)) == 0) return false;
    }
    return true;
  }

  PReLUOptions options_;
  Tensor alpha_;
};

}  // namespace

ReLU::ReLU(const ReLUOptions& options) : Layer(make_relu(options), options) {}
LeakyReLU::LeakyReLU(const LeakyReLUOptions& options) : Layer(make_leaky_relu(options), options) {}
ELU::ELU(const ELUOptions& options)
    : Layer(make_activation_layer("ELU", options.name, activations::ELU(options.alpha)), options) {}
PReLU::PReLU(const PReLUOptions& options) : Layer(std::make_shared<PReLUImpl>(options), options) {}

}  // namespace tutti::keras::layers
