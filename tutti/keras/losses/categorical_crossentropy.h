#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CategoricalCrossentropyOptions {
  bool from_logits = false;    // else probabilities, scaled to the sum 1 and clipped to [1e-7, 1 - 1e-7]
  double label_smoothing = 0;  // labels become y * (1 - s) + s / classes
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_crossentropy";
};

// -sum(y log(p)) over the last axis, y a distribution over the classes. Shapes: both [N, ..., classes].
// TF: tf.keras.losses.CategoricalCrossentropy
class CategoricalCrossentropy : public Loss {
 public:
  explicit CategoricalCrossentropy(const CategoricalCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::losses
