#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct ConvOptions {
  int64_t filters = 0;  // required
  Size<Rank> kernel_size = size_of_all<Rank>(3);
  Size<Rank> strides = size_of_all<Rank>(1);
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  Size<Rank> dilation_rate = size_of_all<Rank>(1);
  int64_t groups = 1;
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::optional<constraints::Constraint> kernel_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  std::string name = {};
};

// activation(convolution(x, kernel) + bias).
// Shapes, with channels last: x [N, spatial axes, in], result [N, windows on each axis, filters]; kernel [kernel_size,
// in / groups, filters], bias [filters]. TF: tf.keras.layers.Conv1D, Conv2D, Conv3D
template <size_t Rank>
class Conv : public Layer {
 public:
  explicit Conv(const ConvOptions<Rank>& options);
};

using Conv1DOptions = ConvOptions<1>;
using Conv2DOptions = ConvOptions<2>;
using Conv3DOptions = ConvOptions<3>;
using Conv1D = Conv<1>;
using Conv2D = Conv<2>;
using Conv3D = Conv<3>;

}  // namespace tutti::keras::layers
