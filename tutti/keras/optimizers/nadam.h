#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct NadamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
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
  std::string name = "nadam";
};

// Adam with Nesterov's momentum: with u(t) = beta_1 (1 - 0.96^t / 2) and p(t) = u(1) ... u(t), m and v as Adam's,
// w -= rate * (u(t + 1) m / (1 - p(t + 1)) + (1 - u(t)) g / (1 - p(t))) / (sqrt(v / (1 - beta_2^t)) + epsilon).
// Source: Dozat 2015. Throws: invalid_argument for a beta outside of [0, 1); as OptimizerImpl.
// TF: tf.keras.optimizers.Nadam
class Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamOptions& options = {});
};

}  // namespace tutti::keras::optimizers
