#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdamaxOptions {
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
  std::string name = "adamax";
};

// m += (1 - beta_1) (g - m), u = max(beta_2 * u, |g|), w -= rate / (1 - beta_1^t) * m / (u + epsilon).
// Source: Kingma & Ba 2015, section 7. Throws: invalid_argument for a beta outside of [0, 1); as OptimizerImpl.
// TF: tf.keras.optimizers.Adamax
class Adamax : public Optimizer {
 public:
  explicit Adamax(const AdamaxOptions& options = {});
};

}  // namespace tutti::keras::optimizers
