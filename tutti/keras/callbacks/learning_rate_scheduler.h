#pragma once

#include <cstdint>
#include <functional>

#include "tutti/keras/callbacks/callback.h"

namespace tutti::keras::callbacks {

struct LearningRateSchedulerOptions {
  bool verbose = false;  // says on std::cout what it does
};

// Sets the learning rate of each epoch before it begins: schedule(epoch, learning rate so far). Adds "learning_rate" to
// the logs. Throws from fit: invalid_argument for a rate that is negative or not finite, failed_precondition where the
// optimizer has a schedule of its own. TF: tf.keras.callbacks.LearningRateScheduler
class LearningRateScheduler : public Callback {
 public:
  using Schedule = std::function<double(int64_t epoch, double learning_rate)>;

  explicit LearningRateScheduler(Schedule schedule, const LearningRateSchedulerOptions& options = {});
};

}  // namespace tutti::keras::callbacks
