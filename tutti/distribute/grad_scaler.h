#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "tutti/distribute/loss_scale.h"
#include "tutti/tensor/savable.h"

namespace torch::optim {
class Optimizer;
}

namespace tutti {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // after growth_interval steps in a row that were taken
  double backoff_factor = 0.5;  // after one that was not
  int64_t growth_interval = 2000;
  bool enabled = true;  // else losses stay as they are, and every step is taken
};

// Loss scaling for gradients in float16, whose small values would be zero, and whose large ones infinite:
//
//   strategy.run([&](…) { scaler.scale(loss).backward(); }, batch);
//   scaler.step(optimizer);
//   scaler.update();
//
// A step with a gradient that is not finite is left out, and the scale gets smaller. Replicas have one scale: what
// counts is the gradient that all of them have together. bfloat16 needs none. Keras's is LossScaleOptimizer. PyTorch:
// torch.amp.GradScaler. Threads: replicas may scale at once, all else is for global view, one thread at a time.
class GradScaler final : public Savable {
 public:
  // Throws: invalid_argument unless 0 < init_scale, 1 < growth_factor, 0 < backoff_factor < 1 and 0 < growth_interval.
  explicit GradScaler(const GradScalerOptions& options = {});

  // loss * get_scale(). Grad: likewise.
  at::Tensor scale(const at::Tensor& loss) const;

  // Divides the gradients of the optimizer's parameters by the scale, for those who clip them, or look at them, before
  // the step. Throws: failed_precondition in a replica, and where it was done, or the step was taken, since the last
  // update().
  void unscale_(torch::optim::Optimizer& optimizer);

  // Takes the optimizer's step if all its gradients are finite, after dividing them unless that was done. Returns
  // whether it was taken. Throws: failed_precondition in a replica, and for a second step since the last update().
  bool step(torch::optim::Optimizer& optimizer);

  // After the steps of all optimizers. Throws: failed_precondition in a replica, and where there was no step.
  void update();

  double get_scale() const { return options_.enabled ? *scale_ : 1; }

  void visit_state(StateVisitor& visitor) override;

 private:
  struct OptimizerState {
    bool is_finite = true, has_stepped = false;
  };

  GradScalerOptions options_;
  LossScale scale_;
  int64_t steps_in_a_row_ = 0;
  std::map<const torch::optim::Optimizer*, OptimizerState> optimizers_;  // whose gradients were divided since update()
};

}  // namespace tutti
