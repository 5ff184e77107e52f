#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
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
  std::string name = "SGD";
};

// w -= rate * g; with momentum v = momentum * v - rate * g, w += v, or w += momentum * v - rate * g (nesterov).
// Throws: invalid_argument for a momentum outside of [0, 1]; as OptimizerImpl. TF: tf.keras.optimizers.SGD
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

}  // namespace tutti::keras::optimizers
