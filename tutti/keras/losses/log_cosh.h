#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct LogCoshOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "log_cosh";
};

// The mean over the last axis of log(cosh(y_pred - y_true)). Shapes: both [N, ..., features].
// TF: tf.keras.losses.LogCosh
class LogCosh : public Loss {
 public:
  explicit LogCosh(const LogCoshOptions& options = {});
};

}  // namespace tutti::keras::losses
