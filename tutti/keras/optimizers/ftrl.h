#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct FtrlOptions {
  LearningRate learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
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
  std::string name = "ftrl";
};

// Follow the regularized leader: with p = -learning_rate_power, n = a + g^2,
//   z += g + 2 l2_shrinkage w - (n^p - a^p) / rate * w, a = n,
//   w = (clip(z, -l1, l1) - z) / (n^p / rate + 2 l2 + beta / rate).
// Source: McMahan et al. 2013. Throws: invalid_argument for a positive power or a negative strength or initial value,
// and at an update whose learning rate is 0; as OptimizerImpl. TF: tf.keras.optimizers.Ftrl
class Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
};

}  // namespace tutti::keras::optimizers
