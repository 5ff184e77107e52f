#include "tutti/keras/layers/activations/relu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class ReLUImpl : public LayerImpl {
 public:
  explicit ReLUImpl(const ReLUOptions& options) : LayerImpl("ReLU", options.name), options_(options) {
    if (!(options_.max_value >= 0 && options_.negative_slope >= 0 && options_.threshold >= 0))
      refuse(str("max_value ", options_.max_value, ", negative_slope ", options_.negative_slope, ", threshold ",
                 options_.threshold, "; none may be negative"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const bool plain = options_.negative_slope == 0 && options_.threshold == 0;
    const Tensor y =
        plain ? x.relu() : at::where(x >= options_.threshold, x, options_.negative_slope * (x - options_.threshold));
    return std::isinf(options_.max_value) ? y : y.clamp_max(options_.max_value);
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

 private:
  ReLUOptions options_;
};

}  // namespace

ReLU::ReLU(const ReLUOptions& options) : Layer(std::make_shared<ReLUImpl>(options)) {}

}  // namespace tutti::keras::layers
