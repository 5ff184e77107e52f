#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct BinaryCrossentropyOptions {
  bool from_logits = false;    // else probabilities, clipped to [1e-7, 1 - 1e-7]
  double label_smoothing = 0;  // labels become y * (1 - s) + s / 2
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "binary_crossentropy";
};

// The mean over the last axis of -y log(p) - (1 - y) log(1 - p). Shapes: both [N, ..., labels].
// TF: tf.keras.losses.BinaryCrossentropy
class BinaryCrossentropy : public Loss {
 public:
  explicit BinaryCrossentropy(const BinaryCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::losses
