#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct BinaryCrossentropyOptions {
  bool from_logits = false;    // else probabilities, clipped to [1e-7, 1 - 1e-7]
  double label_smoothing = 0;  // labels become y * (1 - s) + s / 2
  int64_t axis = -1;           // the one that the mean is taken over
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "binary_crossentropy";
};

// The mean over the last axis of -y log(p) - (1 - y) log(1 - p). Shapes: both [N, ..., labels].
// TF: tf.keras.losses.BinaryCrossentropy
class BinaryCrossentropy : public Loss {
 public:
  explicit BinaryCrossentropy(const BinaryCrossentropyOptions& options = {});
};

struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;  // weigh ones by alpha and zeros by 1 - alpha
  double alpha = 0.25;
  double gamma = 2;  // how much less a well classified label counts
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "binary_focal_crossentropy";
};

// Binary crossentropy times (1 - q)^gamma, q the probability of what the label says. Shapes: both [N, ..., labels].
// TF: tf.keras.losses.BinaryFocalCrossentropy. Source: Lin et al., Focal Loss for Dense Object Detection, 2017
class BinaryFocalCrossentropy : public Loss {
 public:
  explicit BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::losses
