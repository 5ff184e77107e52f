#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CategoricalCrossentropyOptions {
  bool from_logits = false;    // else probabilities, scaled to the sum 1 and clipped to [1e-7, 1 - 1e-7]
  double label_smoothing = 0;  // labels become y * (1 - s) + s / classes
  int64_t axis = -1;           // that of the classes
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_crossentropy";
};

// -sum(y log(p)) over the last axis, y a distribution over the classes. Shapes: both [N, ..., classes].
// TF: tf.keras.losses.CategoricalCrossentropy
class CategoricalCrossentropy : public Loss {
 public:
  explicit CategoricalCrossentropy(const CategoricalCrossentropyOptions& options = {});
};

struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25;  // a factor of all values
  double gamma = 2;     // how much less a well classified sample counts
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_focal_crossentropy";
};

// -sum(alpha (1 - p)^gamma y log(p)) over the classes. Shapes: both [N, ..., classes].
// TF: tf.keras.losses.CategoricalFocalCrossentropy. Source: Lin et al., Focal Loss for Dense Object Detection, 2017
class CategoricalFocalCrossentropy : public Loss {
 public:
  explicit CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::losses
