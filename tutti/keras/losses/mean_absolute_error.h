#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct MeanAbsoluteErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_absolute_error";
};

// The mean over the last axis of |y_true - y_pred|. Shapes: both [N, ..., features].
// TF: tf.keras.losses.MeanAbsoluteError
class MeanAbsoluteError : public Loss {
 public:
  explicit MeanAbsoluteError(const MeanAbsoluteErrorOptions& options = {});
};

}  // namespace tutti::keras::losses
