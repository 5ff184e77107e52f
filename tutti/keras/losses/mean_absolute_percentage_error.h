#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct MeanAbsolutePercentageErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_absolute_percentage_error";
};

// 100 times the mean over the last axis of |(y_true - y_pred) / max(|y_true|, 1e-7)|. Shapes: both [N, ..., features].
// TF: tf.keras.losses.MeanAbsolutePercentageError
class MeanAbsolutePercentageError : public Loss {
 public:
  explicit MeanAbsolutePercentageError(const MeanAbsolutePercentageErrorOptions& options = {});
};

}  // namespace tutti::keras::losses
