#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {

ConvolutionImpl::ConvolutionImpl(std::string type, const std::string& name, Convolution convolution, bool may_be_causal)
    : FormattedImpl(std::move(type), name, convolution.data_format, convolution.windows.axes.size()),
      convolution_(std::move(convolution)) {
  check_windows(*this, "kernel_size", windows(), may_be_causal);
  regularize_activity(convolution_.activity_regularizer);
}

void ConvolutionImpl::build(const Shape& input_shape) {
  FormattedImpl::build(input_shape);
  channels_ = input_shape.back();
  if (channels_ <= 0)
    refuse(str("the input has shape ", to_string(input_shape), "; its channels must be known, and not 0"));
  add_kernels(channels_);
  if (convolution_.bias) bias_ = add_weight("bias", {num_filters(channels_)}, *convolution_.bias);
}

Tensor ConvolutionImpl::call(const Tensor& x, const CallOptions&) const {
  check_images(*this, x.sizes(), spatial_rank());
  check_channels(x.sizes());
  return convolution_.activation(convolve(x));
}

Shape ConvolutionImpl::compute_output_shape(const Shape& input_shape) const {
  Shape shape = windowed_shape(*this, input_shape, windows());
  check_channels(input_shape);
  shape.back() = num_filters(input_shape.back());
  return shape;
}

void ConvolutionImpl::check_channels(at::IntArrayRef shape) const {
  if (channels_ > 0 && shape.back() != kUnknown && shape.back() != channels_)
    refuse(str("the input has shape ", to_string(shape), "; the layer was built for ", channels_, " channels"));
}

Shape ConvolutionImpl::kernel_shape(int64_t channels, int64_t filters) const {
  Shape shape;
  for (const Window& window : windows().axes) shape.push_back(window.size);
  shape.insert(shape.end(), {channels, filters});
  return shape;
}

void ConvolutionImpl::check_positive(const char* option, int64_t value) const {
  if (value <= 0) refuse(str(option, " is ", value, "; it must be positive"));
}

Tensor convolve(const Tensor& x, const Tensor& kernel, const std::optional<Tensor>& bias, const Windows& windows,
                int64_t groups) {
  const PaddedImages padded = pad_images(x, windows, 0);
  const Tensor filters = filters_first(kernel);
  const auto run = [&](auto convolution) {  // by its own name, which LibTorch's autocast knows
    return convolution(padded.images, filters, bias, at::IntArrayRef(windows.strides()),
                       at::IntArrayRef(padded.padding), at::IntArrayRef(windows.dilations()), groups);
  };
  const Tensor output = filters.dim() == 5 ? run([](auto&&... arguments) { return at::conv3d(arguments...); })
                                           : run([](auto&&... arguments) { return at::conv2d(arguments...); });
  return channels_last(output, windows.axes.size());
}

Tensor depthwise_convolve(const Tensor& x, const Tensor& kernel, const std::optional<Tensor>& bias,
                          const Windows& windows) {
  return convolve(x, kernel.flatten(-2).unsqueeze(-2), bias, windows, kernel.size(-2));
}

Tensor filters_first(const Tensor& kernel) {
  if (kernel.dim() == 5) return kernel.permute({4, 3, 0, 1, 2});
  return (kernel.dim() == 3 ? kernel.unsqueeze(0) : kernel).permute({3, 2, 0, 1});
}

}  // namespace tutti::keras::layers
