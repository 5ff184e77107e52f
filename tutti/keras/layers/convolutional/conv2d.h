#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

struct Conv2DOptions {
  int64_t filters = 0;  // required
  Size2D kernel_size = {3, 3};
  Size2D strides = {1, 1};
  Padding padding = Padding::valid;
  Size2D dilation_rate = {1, 1};
  int64_t groups = 1;
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::string name = {};
};

// activation(convolution(x, kernel) + bias), channels last.
// Shapes: x [N, H, W, in], result [N, H', W', filters]; kernel [kh, kw, in / groups, filters], bias [filters].
// TF: tf.keras.layers.Conv2D with data_format "channels_last"
class Conv2D : public Layer {
 public:
  explicit Conv2D(const Conv2DOptions& options);
};

}  // namespace tutti::keras::layers
