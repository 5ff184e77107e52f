#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct FlattenOptions {
  std::string name = {};
};

// Shapes: x [N, ...], result [N, product of the rest]. TF: tf.keras.layers.Flatten
class Flatten : public Layer {
 public:
  explicit Flatten(const FlattenOptions& options = {});
};

}  // namespace tutti::keras::layers
