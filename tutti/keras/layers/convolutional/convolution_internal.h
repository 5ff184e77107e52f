#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/formatted_layer_internal.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// What the options of every convolution say, whatever its number of spatial axes.
struct Convolution {
  DataFormat data_format;
  Windows windows;
  activations::Activation activation;
  std::optional<regularizers::Regularizer> activity_regularizer;
  std::optional<WeightOptions> bias;  // none: no bias
};

template <class Options>
Convolution convolution_of(const Options& options) {
  Convolution convolution{
      .data_format = options.data_format,
      .windows = make_windows(options.kernel_size, options.strides, options.padding, options.dilation_rate),
      .activation = options.activation,
      .activity_regularizer = options.activity_regularizer,
      .bias = std::nullopt};
  if (options.use_bias)
    convolution.bias = {.initializer = options.bias_initializer,
                        .regularizer = options.bias_regularizer,
                        .constraint = options.bias_constraint};
  return convolution;
}

// activation(a convolution of x with kernels + bias): kernels and convolution are the derived class's.
class ConvolutionImpl : public FormattedImpl {
 public:
  ConvolutionImpl(std::string type, const std::string& name, Convolution convolution, bool may_be_causal = false);

  void build(const Shape& input_shape) override;
  Tensor call(const Tensor& x, const CallOptions& options) const override;
  Shape compute_output_shape(const Shape& input_shape) const override;
  InputCast input_cast() const override { return InputCast::numbers; }

 protected:
  virtual void add_kernels(int64_t channels) = 0;
  virtual Tensor convolve(const Tensor& x) const = 0;
  // The channels of the output for those of the input, which may be unknown.
  virtual int64_t num_filters(int64_t channels) const = 0;

  const Windows& windows() const { return convolution_.windows; }
  size_t spatial_rank() const { return windows().axes.size(); }
  std::optional<Tensor> bias() const { return convolution_.bias ? std::optional(bias_) : std::nullopt; }
  // The windows' sizes and then two numbers of channels.
  Shape kernel_shape(int64_t channels, int64_t filters) const;
  // Refuses an option that is not positive.
  void check_positive(const char* option, int64_t value) const;

 private:
  // Refuses an input of other channels than the layer was built for.
  void check_channels(at::IntArrayRef shape) const;

  Convolution convolution_;
  int64_t channels_ = 0;
  Tensor bias_;
};

// x [N, spatial axes, in], kernel [sizes, in / groups, out] -> [N, windows, out]
Tensor convolve(const Tensor& x, const Tensor& kernel, const std::optional<Tensor>& bias, const Windows& windows,
                int64_t groups);
// The same for each channel alone: kernel [sizes, in, multiplier] -> [N, windows, in * multiplier]
Tensor depthwise_convolve(const Tensor& x, const Tensor& kernel, const std::optional<Tensor>& bias,
                          const Windows& windows);
// A kernel [sizes, a, b] as LibTorch takes it for channels_first(x): [b, a, sizes]
Tensor filters_first(const Tensor& kernel);

}  // namespace tutti::keras::layers
