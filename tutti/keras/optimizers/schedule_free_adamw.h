#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct ScheduleFreeAdamWOptions {
  LearningRate learning_rate = 0.0025;
  double beta_1 = 0.9;  // how much of the average is in the variables while they are trained, in (0, 1]
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  int64_t warmup_steps = 0;  // updates over which the rate grows from 0
  // Of every optimizer; CommonOptions says what they do.
  std::optional<double> weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> global_clipnorm = {};
  std::optional<double> clipvalue = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::string name = "schedule_free_adamw";
};

// AdamW without a schedule: a sequence z takes the steps, x is its average, and the variables, in training, lie between
// them: w = (1 - beta_1) z + beta_1 x. With t updates, v += (1 - beta_2) (g^2 - v),
// z -= rate * g / (sqrt(v / (1 - beta_2^t)) + epsilon), x += (z - x) / t.
// The average is what a training is for: swap_to_eval() before evaluating and saving, swap_to_train() before going on;
// outside of run. Source: Defazio et al. 2024, arXiv:2405.15682. Throws: invalid_argument for beta_1 outside of (0, 1],
// beta_2 outside of [0, 1), negative warm-up steps; as OptimizerImpl. TF: keras.optimizers.ScheduleFreeAdamW
class ScheduleFreeAdamW : public Optimizer {
 public:
  explicit ScheduleFreeAdamW(const ScheduleFreeAdamWOptions& options = {});

  // The variables become the average, and again what is trained; nothing before the first update.
  void swap_to_eval() const;
  void swap_to_train() const;
};

}  // namespace tutti::keras::optimizers
