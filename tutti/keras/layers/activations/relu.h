#pragma once

#include <limits>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct ReLUOptions {
  double max_value = std::numeric_limits<double>::infinity();
  double negative_slope = 0;
  double threshold = 0;
  std::string name = {};
};

// max_value where x >= max_value, x from threshold up, negative_slope * (x - threshold) below.
// TF: tf.keras.layers.ReLU
class ReLU : public Layer {
 public:
  explicit ReLU(const ReLUOptions& options = {});
};

}  // namespace tutti::keras::layers
