#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct DepthwiseConvOptions {
  Size<Rank> kernel_size = size_of_all<Rank>(3);
  Size<Rank> strides = size_of_all<Rank>(1);
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  int64_t depth_multiplier = 1;
  Size<Rank> dilation_rate = size_of_all<Rank>(1);
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer depthwise_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> depthwise_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::optional<constraints::Constraint> depthwise_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  std::string name = {};
};

// activation(depth_multiplier convolutions of each channel alone + bias).
// Shapes, with channels last: x [N, spatial axes, in], result [N, windows on each axis, in * depth_multiplier], those
// of a channel side by side; kernel [kernel_size, in, depth_multiplier], bias [in * depth_multiplier]. TF:
// tf.keras.layers.DepthwiseConv1D, DepthwiseConv2D
template <size_t Rank>
class DepthwiseConv : public Layer {
 public:
  explicit DepthwiseConv(const DepthwiseConvOptions<Rank>& options = {});
};

using DepthwiseConv1DOptions = DepthwiseConvOptions<1>;
using DepthwiseConv2DOptions = DepthwiseConvOptions<2>;
using DepthwiseConv1D = DepthwiseConv<1>;
using DepthwiseConv2D = DepthwiseConv<2>;

}  // namespace tutti::keras::layers
