#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
  std::string name = {};
};

// x itself; adds l1 * sum(|x|) + l2 * sum(x^2), per sample, to the loss of the model.
// TF: tf.keras.layers.ActivityRegularization
class ActivityRegularization : public Layer {
 public:
  explicit ActivityRegularization(const ActivityRegularizationOptions& options = {});
};

}  // namespace tutti::keras::layers
