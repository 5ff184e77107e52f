#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct MeanSquaredErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_squared_error";
};

// The mean over the last axis of (y_true - y_pred)^2. Shapes: both [N, ..., features].
// TF: tf.keras.losses.MeanSquaredError
class MeanSquaredError : public Loss {
 public:
  explicit MeanSquaredError(const MeanSquaredErrorOptions& options = {});
};

}  // namespace tutti::keras::losses
