#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
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
  std::string name = "adam";
};

// m += (1 - beta_1) (g - m), v += (1 - beta_2) (g^2 - v), w -= alpha m / (sqrt(v) + epsilon)
// with alpha = rate * sqrt(1 - beta_2^t) / (1 - beta_1^t); amsgrad takes the largest v so far. Epsilon stands where
// Keras has it ("epsilon hat" in Kingma & Ba 2015), not where torch::optim::Adam has it.
// Throws: invalid_argument for a beta outside of [0, 1); as OptimizerImpl. TF: tf.keras.optimizers.Adam
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

}  // namespace tutti::keras::optimizers
