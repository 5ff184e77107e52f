#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct DropoutOptions {
  double rate = 0;  // share of the elements that become zero, in [0, 1]
  std::string name = {};
};

// In training, zeroes elements at random and scales the others by 1 / (1 - rate); else x itself.
// TF: tf.keras.layers.Dropout
class Dropout : public Layer {
 public:
  explicit Dropout(const DropoutOptions& options);
};

}  // namespace tutti::keras::layers
