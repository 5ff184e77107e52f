#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdadeltaOptions {
  LearningRate learning_rate = 0.001;
  double rho = 0.95;
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
  std::string name = "adadelta";
};

// a += (1 - rho) (g^2 - a), s = sqrt(d + epsilon) / sqrt(a + epsilon) * g, d += (1 - rho) (s^2 - d), w -= rate * s.
// Source: Zeiler 2012, arXiv:1212.5701. Throws: invalid_argument for rho outside of [0, 1]; as OptimizerImpl.
// TF: tf.keras.optimizers.Adadelta
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(const AdadeltaOptions& options = {});
};

}  // namespace tutti::keras::optimizers
