#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct MaskingOptions {
  double mask_value = 0;
  std::string name = {};
};

// Hides steps whose features are all mask_value: they become 0, and later layers skip them.
// Shapes: x [batch, steps, features]; the mask is [batch, steps].
// TF: tf.keras.layers.Masking
class Masking : public Layer {
 public:
  explicit Masking(const MaskingOptions& options = {});
};

}  // namespace tutti::keras::layers
