#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

struct MaxPooling2DOptions {
  Size2D pool_size = {2, 2};
  Size2D strides = {};  // {}: pool_size
  Padding padding = Padding::valid;
  std::string name = {};
};

// The largest value of each window. Shapes: x [N, H, W, C], result [N, H', W', C]. TF: tf.keras.layers.MaxPooling2D
class MaxPooling2D : public Layer {
 public:
  explicit MaxPooling2D(const MaxPooling2DOptions& options = {});
};

}  // namespace tutti::keras::layers
