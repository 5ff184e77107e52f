#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct ConcatenateOptions {
  int64_t axis = -1;  // negative: from the last; not the batch
  std::string name = {};
};

// Its inputs one after the other. Shapes: equal but for the axis. TF: tf.keras.layers.Concatenate
class Concatenate : public Layer {
 public:
  explicit Concatenate(const ConcatenateOptions& options = {});
};

}  // namespace tutti::keras::layers
