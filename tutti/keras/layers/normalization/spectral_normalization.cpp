#include "tutti/keras/layers/normalization/spectral_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

// Of length 1, unless it is too short.
Tensor of_unit_length(const Tensor& row) { return row / row.norm().clamp_min(1e-7); }

class SpectralNormalizationImpl : public LayerImpl {
 public:
  SpectralNormalizationImpl(std::shared_ptr<LayerImpl> layer, const SpectralNormalizationOptions& options)
      : LayerImpl("SpectralNormalization", options.name), layer_(std::move(layer)), options_(options) {
    if (options_.power_iterations < 1)
      refuse(str("power_iterations is ", options_.power_iterations, "; it must be positive"));
    adopt(layer_);
  }

  void build_all(const std::vector<Shape>& input_shapes) override {
    layer_->build_once(input_shapes);
    const auto is_kernel = [](const Weight& weight) { return weight.name == "kernel" || weight.name == "embeddings"; };
    const auto kernel = std::ranges::find_if(layer_->weights(), is_kernel);
    if (kernel == layer_->weights().end())
      refuse(str("the layer ", layer_->name(), " has neither a kernel nor embeddings"));
    kernel_ = kernel->value;
    vector_u_ = add_weight("vector_u", {1, kernel_.size(-1)},
                           {.initializer = initializers::TruncatedNormal({.stddev = 0.02}), .trainable = false});
    track_layer(layer_);
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    if (options.training) normalize();
    return layer_->outputs(inputs, options);
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    return layer_->compute_output_shapes(input_shapes);
  }
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& masks) const override {
    return layer_->compute_masks(inputs, masks);
  }
  InputCast input_cast() const override { return InputCast::none; }

 private:
  void normalize() const {
    const c10::NoGradGuard no_grad;
    const Tensor matrix = kernel_.flatten(0, -2);  // [all other axes, last]
    Tensor u = vector_u_, v;
    for (int64_t i = 0; i < options_.power_iterations; ++i) {
      v = of_unit_length(at::matmul(u, matrix.t()));
      u = of_unit_length(at::matmul(v, matrix));
    }
    const Tensor largest = at::matmul(at::matmul(v, matrix), u.t()).squeeze();
    const Tensor divisor = largest.masked_fill(largest == 0, 1);  // a kernel of zeros stays
    Tensor(vector_u_).copy_(u);
    Tensor(kernel_).copy_(kernel_ / divisor);
  }

  std::shared_ptr<LayerImpl> layer_;
  SpectralNormalizationOptions options_;
  Tensor kernel_;    // the layer's
  Tensor vector_u_;  // [1, last]
};

}  // namespace

SpectralNormalization::SpectralNormalization(const Layer& layer, const SpectralNormalizationOptions& options)
    : Layer(std::make_shared<SpectralNormalizationImpl>(layer.impl(), options), options) {}

}  // namespace tutti::keras::layers
