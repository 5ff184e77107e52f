#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct LionOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
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
  std::string name = "lion";
};

// w -= rate * sign(beta_1 m + (1 - beta_1) g), m = beta_2 m + (1 - beta_2) g. Source: Chen et al. 2023,
// arXiv:2302.06675. Throws: invalid_argument for beta_1 outside of (0, 1] or beta_2 outside of [0, 1]; as
// OptimizerImpl. TF: tf.keras.optimizers.Lion
class Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options = {});
};

}  // namespace tutti::keras::optimizers
