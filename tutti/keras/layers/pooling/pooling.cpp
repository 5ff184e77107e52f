#include "tutti/keras/layers/pooling/pooling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>

#include <limits>

#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class PoolingImpl : public FormattedImpl {
 public:
  template <size_t Rank>
  PoolingImpl(const char* kind, const PoolingOptions<Rank>& options)
      : FormattedImpl(str(kind, Rank, 'D'), options.name, options.data_format, Rank),
        windows_(make_windows(options.pool_size, options.strides == Size<Rank>{} ? options.pool_size : options.strides,
                              options.padding)) {
    check_windows(*this, "pool_size", windows_);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    check_images(*this, x.sizes(), windows_.axes.size());
    return channels_last(pool(x), windows_.axes.size());
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    return windowed_shape(*this, input_shape, windows_);
  }

 protected:
  const Windows& windows() const { return windows_; }

 private:
  // In the order of LibTorch's images.
  virtual Tensor pool(const Tensor& x) const = 0;

  Windows windows_;
};

class MaxPoolingImpl : public PoolingImpl {
 public:
  template <size_t Rank>
  explicit MaxPoolingImpl(const PoolingOptions<Rank>& options) : PoolingImpl("MaxPooling", options) {}

 private:
  Tensor pool(const Tensor& x) const override {
    const PaddedImages padded = pad_images(x, windows(), -std::numeric_limits<double>::infinity());
    const auto max_pool = padded.images.dim() == 5 ? at::max_pool3d : at::max_pool2d;
    return max_pool(padded.images, windows().sizes(), windows().strides(), padded.padding, windows().dilations(),
                    /*ceil_mode=*/false);
  }
};

class AveragePoolingImpl : public PoolingImpl {
 public:
  template <size_t Rank>
  explicit AveragePoolingImpl(const PoolingOptions<Rank>& options) : PoolingImpl("AveragePooling", options) {}

 private:
  Tensor pool(const Tensor& x) const override {
    const PaddedImages padded = pad_images(x, windows(), 0);
    const Tensor means = mean(padded);
    if (!padded.extended) return means;
    Shape one_sample = x.sizes().vec();
    one_sample.front() = one_sample.back() = 1;
    return means / mean(pad_images(x.new_ones(one_sample), windows(), 0));
  }

  Tensor mean(const PaddedImages& padded) const {
    const auto average_pool =
        padded.images.dim() == 5 ? static_cast<decltype(&at::avg_pool2d)>(at::avg_pool3d) : at::avg_pool2d;
    return average_pool(padded.images, windows().sizes(), windows().strides(), padded.padding, /*ceil_mode=*/false,
                        /*count_include_pad=*/false, /*divisor_override=*/std::nullopt);
  }
};

}  // namespace

template <size_t Rank>
MaxPooling<Rank>::MaxPooling(const PoolingOptions<Rank>& options)
    : Layer(std::make_shared<MaxPoolingImpl>(options), options) {}

template <size_t Rank>
AveragePooling<Rank>::AveragePooling(const PoolingOptions<Rank>& options)
    : Layer(std::make_shared<AveragePoolingImpl>(options), options) {}

template class MaxPooling<1>;
template class MaxPooling<2>;
template class MaxPooling<3>;
template class AveragePooling<1>;
template class AveragePooling<2>;
template class AveragePooling<3>;

}  // namespace tutti::keras::layers
