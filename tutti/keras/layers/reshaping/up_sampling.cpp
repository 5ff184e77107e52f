#include "tutti/keras/layers/reshaping/up_sampling.h"

#include <ATen/ops/upsample_bilinear2d.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"

namespace tutti::keras::layers {
namespace {

// Each axis with an axis of repetitions behind it, which are views, joined in one copy.
Tensor repeat(const Tensor& x, const Shape& shape, const Extents& factors) {
  Tensor repeated = x;
  Shape expanded{x.size(0)};
  for (size_t i = 0; i < factors.size(); ++i) {
    repeated = repeated.unsqueeze(2 * static_cast<int64_t>(i) + 2);
    expanded.insert(expanded.end(), {x.size(static_cast<int64_t>(i) + 1), factors[i]});
  }
  expanded.push_back(x.size(-1));
  return repeated.expand(expanded).reshape(shape);
}

class UpSamplingImpl : public FormattedImpl {
 public:
  template <size_t Rank>
  explicit UpSamplingImpl(const UpSamplingOptions<Rank>& options)
      : FormattedImpl(str("UpSampling", Rank, 'D'), options.name, options.data_format, Rank),
        factors_(options.size.begin(), options.size.end()),
        interpolation_(options.interpolation) {
    if (std::ranges::min(factors_) <= 0) refuse(str("size is ", str_list(factors_), "; it must be positive"));
    if (interpolation_ == Interpolation::bilinear && Rank != 2)
      refuse("interpolation is bilinear; only UpSampling2D has it");
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const Shape shape = compute_output_shape(x.sizes().vec());
    if (interpolation_ == Interpolation::nearest) return repeat(x, shape, factors_);
    return channels_last(at::upsample_bilinear2d(channels_first(x), {shape[1], shape[2]}, /*align_corners=*/false), 2);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, factors_.size());
    Shape shape = input_shape;
    for (size_t i = 0; i < factors_.size(); ++i)
      if (shape[i + 1] != kUnknown) shape[i + 1] *= factors_[i];
    return shape;
  }

 private:
  Extents factors_;
  Interpolation interpolation_;
};

}  // namespace

template <size_t Rank>
UpSampling<Rank>::UpSampling(const UpSamplingOptions<Rank>& options)
    : Layer(std::make_shared<UpSamplingImpl>(options), options) {}

template class UpSampling<1>;
template class UpSampling<2>;
template class UpSampling<3>;

}  // namespace tutti::keras::layers
