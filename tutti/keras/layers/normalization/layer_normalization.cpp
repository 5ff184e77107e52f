#include "tutti/keras/layers/normalization/layer_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/axis.h"
#include "tutti/keras/layers/normalization/affine_internal.h"
#include "tutti/keras/layers/widened_internal.h"

namespace tutti::keras::layers {
namespace {

// The input's extents at some axes, which must be known.
Shape extents_at(const LayerImpl& layer, at::IntArrayRef axes, const Shape& input_shape) {
  Shape extents;
  for (const int64_t axis : axes_of(layer, axes, input_shape))
    extents.push_back(input_shape[static_cast<size_t>(axis)]);
  if (std::ranges::count(extents, kUnknown) > 0)
    layer.refuse(str("the input has shape ", to_string(input_shape), "; its extents at axis ", str_list(axes),
                     " must be known when the layer is built"));
  return extents;
}

// Refuses an input whose extents at `axes` are not those of the weights.
std::vector<int64_t> check_extents(const LayerImpl& layer, at::IntArrayRef axes, const Tensor& x, const Shape& built) {
  const std::vector<int64_t> ascending = axes_of(layer, axes, x.sizes());
  for (size_t i = 0; i < built.size(); ++i)
    if (x.size(ascending[i]) != built[i])
      layer.refuse(str("the input has shape ", to_string(x.sizes()), "; the layer was built for extents ",
                       str_list(built), " at axis ", str_list(axes)));
  return ascending;
}

class LayerNormalizationImpl : public AffineImpl {
 public:
  explicit LayerNormalizationImpl(const LayerNormalizationOptions& options)
      : AffineImpl("LayerNormalization", options.name, affine_of(options)), options_(options) {}

  void build(const Shape& input_shape) override {
    extents_ = extents_at(*this, options_.axis, input_shape);
    add_gamma_and_beta(extents_);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const std::vector<int64_t> axes = check_extents(*this, options_.axis, x, extents_);
    const bool are_last = axes.front() + static_cast<int64_t>(axes.size()) == x.dim();
    if (are_last) return at::layer_norm(x, extents_, gamma(), beta(), options_.epsilon);
    const Tensor wide = widened(x), centered = wide - wide.mean(axes, /*keepdim=*/true);
    const Tensor variance = centered.square().mean(axes, /*keepdim=*/true);
    return scaled_and_shifted(centered * (variance + options_.epsilon).rsqrt(), axes).to(x.scalar_type());
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    (void)axes_of(*this, options_.axis, input_shape);
    return input_shape;
  }

 private:
  LayerNormalizationOptions options_;
  Shape extents_;
};

class RMSNormalizationImpl : public LayerImpl {
 public:
  explicit RMSNormalizationImpl(const RMSNormalizationOptions& options)
      : LayerImpl("RMSNormalization", options.name), options_(options) {}

  void build(const Shape& input_shape) override {
    scale_ = add_weight("scale", extents_at(*this, options_.axis, input_shape), {.initializer = initializers::Ones()});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const std::vector<int64_t> axes = check_extents(*this, options_.axis, x, scale_.sizes().vec());
    const Tensor wide = widened(x), mean_square = wide.square().mean(axes, /*keepdim=*/true);
    const Tensor scale = scale_.view(broadcast_shape(axes, x.sizes()));
    return (wide * (mean_square + options_.epsilon).rsqrt() * scale).to(x.scalar_type());
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    (void)axes_of(*this, options_.axis, input_shape);
    return input_shape;
  }

 private:
  RMSNormalizationOptions options_;
  Tensor scale_;
};

class UnitNormalizationImpl : public LayerImpl {
 public:
  explicit UnitNormalizationImpl(const UnitNormalizationOptions& options)
      : LayerImpl("UnitNormalization", options.name), axis_(options.axis) {}

  Tensor call(const Tensor& x, const CallOptions&) const override {
    constexpr double kSmallestNorm = 1e-12;
    const Tensor wide = widened(x), sum = wide.square().sum(axes_of(*this, axis_, x.sizes()), /*keepdim=*/true);
    return (wide * sum.clamp_min(kSmallestNorm * kSmallestNorm).rsqrt()).to(x.scalar_type());
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    (void)axes_of(*this, axis_, input_shape);
    return input_shape;
  }
  bool supports_masking() const override { return true; }

 private:
  std::vector<int64_t> axis_;
};

}  // namespace

LayerNormalization::LayerNormalization(const LayerNormalizationOptions& options)
    : Layer(std::make_shared<LayerNormalizationImpl>(options), options) {}

RMSNormalization::RMSNormalization(const RMSNormalizationOptions& options)
    : Layer(std::make_shared<RMSNormalizationImpl>(options), options) {}

UnitNormalization::UnitNormalization(const UnitNormalizationOptions& options)
    : Layer(std::make_shared<UnitNormalizationImpl>(options), options) {}

}  // namespace tutti::keras::layers
