#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct LossScaleOptimizerOptions {
  double initial_scale = 32768;
  int64_t dynamic_growth_steps = 2000;  // updates in a row after which the scale is doubled
  std::string name = "loss_scale_optimizer";
};

// Multiplies the loss by a scale, so that small gradients do not vanish in float16, and divides the gradients by it.
// Where an element of the gradients' sum over the replicas is not finite, the update is left out, for all replicas, and
// the scale is halved; at a scale of 1 or less with a warning. The inner optimizer does the rest; its loss_scale_factor
// is not used. apply_gradients takes the gradients of scale_loss(loss). Throws: invalid_argument unless both options
// are positive. TF: tf.keras.optimizers.LossScaleOptimizer
class LossScaleOptimizer : public Optimizer {
 public:
  explicit LossScaleOptimizer(const Optimizer& inner_optimizer, const LossScaleOptimizerOptions& options = {});

  const Optimizer& inner_optimizer() const { return inner_; }
  double dynamic_scale() const;  // of the next loss

 private:
  Optimizer inner_;
};

}  // namespace tutti::keras::optimizers
