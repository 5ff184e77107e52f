#include "tutti/keras/layers/preprocessing/rescaling.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

class RescalingImpl : public LayerImpl {
 public:
  explicit RescalingImpl(const RescalingOptions& options) : LayerImpl("Rescaling", options.name), options_(options) {}

  Tensor call(const Tensor& x, const CallOptions&) const override {
    return floating(x) * options_.scale + options_.offset;
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

  bool supports_masking() const override { return true; }

 private:
  RescalingOptions options_;
};

}  // namespace

Rescaling::Rescaling(const RescalingOptions& options) : Layer(std::make_shared<RescalingImpl>(options), options) {}

}  // namespace tutti::keras::layers
