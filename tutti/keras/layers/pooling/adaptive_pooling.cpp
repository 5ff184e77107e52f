#include "tutti/keras/layers/pooling/adaptive_pooling.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>

#include <algorithm>
#include <tuple>

#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"

namespace tutti::keras::layers {
namespace {

using Pool = Tensor (*)(const Tensor& images, at::IntArrayRef output_size);

class AdaptivePoolingImpl : public FormattedImpl {
 public:
  template <size_t Rank>
  AdaptivePoolingImpl(const char* kind, const AdaptivePoolingOptions<Rank>& options, Pool pool)
      : FormattedImpl(str(kind, Rank, 'D'), options.name, options.data_format, Rank),
        output_size_(options.output_size.begin(), options.output_size.end()),
        pool_(pool) {
    if (std::ranges::min(output_size_) <= 0)
      refuse(str("output_size is ", str_list(output_size_), "; it must be positive"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    check_images(*this, x.sizes(), output_size_.size());
    Extents extents = output_size_;
    if (extents.size() == 1) extents.insert(extents.begin(), 1);
    return channels_last(pool_(channels_first(x), extents), output_size_.size());
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, output_size_.size());
    Shape shape = input_shape;
    std::ranges::copy(output_size_, shape.begin() + 1);
    return shape;
  }

 private:
  Extents output_size_;
  Pool pool_;
};

Tensor average(const Tensor& images, at::IntArrayRef output_size) {
  return images.dim() == 5 ? at::adaptive_avg_pool3d(images, output_size)
                           : at::adaptive_avg_pool2d(images, output_size);
}

Tensor largest_of_bins(const Tensor& images, at::IntArrayRef output_size) {
  return std::get<0>(images.dim() == 5 ? at::adaptive_max_pool3d(images, output_size)
                                       : at::adaptive_max_pool2d(images, output_size));
}

}  // namespace

template <size_t Rank>
AdaptiveAveragePooling<Rank>::AdaptiveAveragePooling(const AdaptivePoolingOptions<Rank>& options)
    : Layer(std::make_shared<AdaptivePoolingImpl>("AdaptiveAveragePooling", options, average), options) {}

template <size_t Rank>
AdaptiveMaxPooling<Rank>::AdaptiveMaxPooling(const AdaptivePoolingOptions<Rank>& options)
    : Layer(std::make_shared<AdaptivePoolingImpl>("AdaptiveMaxPooling", options, largest_of_bins), options) {}

template class AdaptiveAveragePooling<1>;
template class AdaptiveAveragePooling<2>;
template class AdaptiveAveragePooling<3>;
template class AdaptiveMaxPooling<1>;
template class AdaptiveMaxPooling<2>;
template class AdaptiveMaxPooling<3>;

}  // namespace tutti::keras::layers
