#include "tutti/keras/layers/core/masking.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class MaskingImpl : public LayerImpl {
 public:
  explicit MaskingImpl(const MaskingOptions& options) : LayerImpl("Masking", options.name), options_(options) {}

  Tensor call(const Tensor& x, const CallOptions&) const override {
    (void)compute_output_shape(x.sizes().vec());
    return x * steps_that_count(x).unsqueeze(-1);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() < 3)
      refuse(tutti::str("the input has shape ", to_string(input_shape), "; it must be [batch, steps, features]"));
    return input_shape;
  }

  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>&) const override {
    return {steps_that_count(inputs[0])};
  }

 private:
  Tensor steps_that_count(const Tensor& x) const { return (x != options_.mask_value).any(-1); }

  MaskingOptions options_;
};

}  // namespace

Masking::Masking(const MaskingOptions& options) : Layer(std::make_shared<MaskingImpl>(options), options) {}

}  // namespace tutti::keras::layers
