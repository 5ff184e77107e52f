#include "tutti/keras/layers/convolutional/conv_transpose.h"

#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {
namespace {

class ConvTransposeImpl : public ConvolutionImpl {
 public:
  template <size_t Rank>
  explicit ConvTransposeImpl(const ConvTransposeOptions<Rank>& options)
      : ConvolutionImpl(str("Conv", Rank, "DTranspose"), options.name, convolution_of(options)),
        filters_(options.filters),
        kernel_options_{.initializer = options.kernel_initializer,
                        .regularizer = options.kernel_regularizer,
                        .constraint = options.kernel_constraint} {
    check_positive("filters", filters_);
    if (!options.output_padding) return;
    output_padding_.emplace(options.output_padding->begin(), options.output_padding->end());
    for (size_t axis = 0; axis < Rank; ++axis)
      if ((*output_padding_)[axis] < 0 || (*output_padding_)[axis] >= options.strides[axis])
        refuse(str("output_padding ", str_list(*options.output_padding), ", strides ", str_list(options.strides),
                   "; output_padding must be less than strides, and not negative"));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, spatial_rank());
    Shape shape = input_shape;
    for (size_t axis = 0; axis < spatial_rank(); ++axis) {
      shape[axis + 1] = output_extent(axis, input_shape[axis + 1]);
      if (shape[axis + 1] != kUnknown && shape[axis + 1] <= 0)
        refuse(str("the input has shape ", to_string(input_shape), "; nothing is left of axis ", axis + 1));
    }
    shape.back() = filters_;
    return shape;
  }

 private:
  void add_kernels(int64_t channels) override {
    kernel_ = add_weight("kernel", kernel_shape(filters_, channels), kernel_options_);
  }

  // LibTorch's result is cut alike at both ends (padding) and extended at the end (output padding); what is left beyond
  // the wanted extent is cut off.
  Tensor convolve(const Tensor& x) const override {
    const Tensor images = channels_first(x);
    Extents padding, output_padding, extents;
    if (spatial_rank() == 1) {
      padding.push_back(0);
      output_padding.push_back(0);
      extents.push_back(1);
    }
    for (size_t axis = 0; axis < spatial_rank(); ++axis) {
      const int64_t num = x.size(static_cast<int64_t>(axis) + 1);
      const int64_t extent = output_extent(axis, num);
      const int64_t whole = (num - 1) * windows().axes[axis].stride + windows().axes[axis].span();
      const int64_t cut = windows().padding == Padding::same ? std::max<int64_t>(0, whole - extent) / 2 : 0;
      extents.push_back(extent);
      padding.push_back(cut);
      output_padding.push_back(std::max<int64_t>(0, extent - (whole - 2 * cut)));
    }
    const Tensor filters = filters_first(kernel_);
    const auto run = [&](auto convolution) {  // by its own name, which LibTorch's autocast knows
      return convolution(images, filters, bias(), at::IntArrayRef(windows().strides()), at::IntArrayRef(padding),
                         at::IntArrayRef(output_padding), /*groups=*/1, at::IntArrayRef(windows().dilations()));
    };
    Tensor output = filters.dim() == 5 ? run([](auto&&... arguments) { return at::conv_transpose3d(arguments...); })
                                       : run([](auto&&... arguments) { return at::conv_transpose2d(arguments...); });
    for (size_t i = 0; i < extents.size(); ++i) output = output.narrow(static_cast<int64_t>(i) + 2, 0, extents[i]);
    return channels_last(output, spatial_rank());
  }

  int64_t num_filters(int64_t) const override { return filters_; }

  int64_t output_extent(size_t axis, int64_t num) const {
    if (num == kUnknown) return kUnknown;
    const Window& window = windows().axes[axis];
    const bool same = windows().padding == Padding::same;
    if (output_padding_)
      return (num - 1) * window.stride + (same ? window.span() % 2 : window.span()) + (*output_padding_)[axis];
    return same ? num * window.stride : (num - 1) * window.stride + std::max(window.span(), window.stride);
  }

  int64_t filters_;
  std::optional<Extents> output_padding_;
  WeightOptions kernel_options_;
  Tensor kernel_;
};

}  // namespace

template <size_t Rank>
ConvTranspose<Rank>::ConvTranspose(const ConvTransposeOptions<Rank>& options)
    : Layer(std::make_shared<ConvTransposeImpl>(options), options) {}

template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace tutti::keras::layers
