#include "tutti/keras/layers/core/lambda.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/activations/activation_internal.h"

namespace tutti::keras::layers {
namespace {

class LambdaImpl : public LayerImpl {
 public:
  explicit LambdaImpl(const LambdaOptions& options) : LayerImpl("Lambda", options.name), options_(options) {
    if (!options_.function) refuse("it has no function");
  }

  Tensor call(const Tensor& x, const CallOptions&) const override { return options_.function(x); }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (options_.output_shape) return options_.output_shape(input_shape);
    Shape shape = shape_with(input_shape, 2);
    if (std::ranges::count(input_shape, kUnknown) == 0) return shape_with(input_shape, 0);
    const Shape other = shape_with(input_shape, 3);
    if (shape.size() != other.size())
      refuse(str("the rank of its result depends on the input's extents; say what its shape is by output_shape"));
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] != other[axis]) shape[axis] = kUnknown;
    return shape;
  }

 private:
  // The result's shape for an input whose unknown extents are `extent`.
  Shape shape_with(Shape input_shape, int64_t extent) const {
    std::ranges::replace(input_shape, kUnknown, extent);
    const c10::NoGradGuard no_grad;
    return options_.function(at::zeros(input_shape)).sizes().vec();
  }

  LambdaOptions options_;
};

}  // namespace

Lambda::Lambda(const LambdaOptions& options) : Layer(std::make_shared<LambdaImpl>(options)) {}
Identity::Identity(const IdentityOptions& options)
    : Layer(make_activation_layer("Identity", options.name, activations::linear), options) {}

}  // namespace tutti::keras::layers
