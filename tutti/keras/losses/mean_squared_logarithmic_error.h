#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct MeanSquaredLogarithmicErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_squared_logarithmic_error";
};

// The mean over the last axis of (log(1 + y_true) - log(1 + y_pred))^2, where numbers below 1e-7 count as 1e-7.
// Shapes: both [N, ..., features].
// TF: tf.keras.losses.MeanSquaredLogarithmicError
class MeanSquaredLogarithmicError : public Loss {
 public:
  explicit MeanSquaredLogarithmicError(const MeanSquaredLogarithmicErrorOptions& options = {});
};

}  // namespace tutti::keras::losses
