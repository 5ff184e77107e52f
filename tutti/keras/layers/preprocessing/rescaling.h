#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct RescalingOptions {
  double scale = 1;
  double offset = 0;
  std::string name = {};
};

// x * scale + offset. A floating-point dtype is kept, others become float32. Normalization has numbers for each
// channel. TF: tf.keras.layers.Rescaling
class Rescaling : public Layer {
 public:
  explicit Rescaling(const RescalingOptions& options);
};

}  // namespace tutti::keras::layers
