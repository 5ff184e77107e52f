#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct ConvTransposeOptions {
  int64_t filters = 0;  // required
  Size<Rank> kernel_size = size_of_all<Rank>(3);
  Size<Rank> strides = size_of_all<Rank>(1);
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  std::optional<Size<Rank>> output_padding = {};  // less than strides; none: as said below
  Size<Rank> dilation_rate = size_of_all<Rank>(1);
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

// activation(the gradient of a convolution with this kernel, strides and padding + bias).
// Shapes, with channels last: x [N, spatial axes, in], result [N, spatial axes', filters]; kernel [kernel_size,
// filters, in], bias [filters]. With k = (kernel_size - 1) * dilation_rate + 1 an extent n becomes
//   same:  n * strides, with output_padding (n - 1) * strides + k % 2 + output_padding;
//   valid: (n - 1) * strides + max(k, strides), with output_padding (n - 1) * strides + k + output_padding.
// TF: tf.keras.layers.Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
template <size_t Rank>
class ConvTranspose : public Layer {
 public:
  explicit ConvTranspose(const ConvTransposeOptions<Rank>& options);
};

using Conv1DTransposeOptions = ConvTransposeOptions<1>;
using Conv2DTransposeOptions = ConvTransposeOptions<2>;
using Conv3DTransposeOptions = ConvTransposeOptions<3>;
using Conv1DTranspose = ConvTranspose<1>;
using Conv2DTranspose = ConvTranspose<2>;
using Conv3DTranspose = ConvTranspose<3>;

}  // namespace tutti::keras::layers
