#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdagradOptions {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
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
  std::string name = "adagrad";
};

// a += g^2, w -= rate * g / sqrt(a + epsilon), with a = initial_accumulator_value at first. Source: Duchi et al. 2011.
// Throws: invalid_argument for a negative initial value; as OptimizerImpl. TF: tf.keras.optimizers.Adagrad
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
};

}  // namespace tutti::keras::optimizers
