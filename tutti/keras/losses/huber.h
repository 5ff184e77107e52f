#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct HuberOptions {
  double delta = 1;  // where the square turns into a line
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "huber_loss";
};

// The mean over the last axis of x^2 / 2 where |x| <= delta, else delta |x| - delta^2 / 2, x = y_pred - y_true.
// Shapes: both [N, ..., features]. TF: tf.keras.losses.Huber
class Huber : public Loss {
 public:
  explicit Huber(const HuberOptions& options = {});
};

}  // namespace tutti::keras::losses
