#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct SeparableConvOptions {
  int64_t filters = 0;  // required
  Size<Rank> kernel_size = size_of_all<Rank>(3);
  Size<Rank> strides = size_of_all<Rank>(1);
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  Size<Rank> dilation_rate = size_of_all<Rank>(1);
  int64_t depth_multiplier = 1;
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer depthwise_initializer = initializers::GlorotUniform();
  initializers::Initializer pointwise_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> depthwise_regularizer = {};
  std::optional<regularizers::Regularizer> pointwise_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::optional<constraints::Constraint> depthwise_constraint = {};
  std::optional<constraints::Constraint> pointwise_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  std::string name = {};
};

// A depthwise convolution without bias, then activation(a convolution with windows of one element + bias).
// Shapes, with channels last: x [N, spatial axes, in], result [N, windows on each axis, filters]; depthwise_kernel
// [kernel_size, in, depth_multiplier], pointwise_kernel [1 for each axis, in * depth_multiplier, filters], bias
// [filters]. TF: tf.keras.layers.SeparableConv1D, SeparableConv2D
template <size_t Rank>
class SeparableConv : public Layer {
 public:
  explicit SeparableConv(const SeparableConvOptions<Rank>& options);
};

using SeparableConv1DOptions = SeparableConvOptions<1>;
using SeparableConv2DOptions = SeparableConvOptions<2>;
using SeparableConv1D = SeparableConv<1>;
using SeparableConv2D = SeparableConv<2>;

}  // namespace tutti::keras::layers
