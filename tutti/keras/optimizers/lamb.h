#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct LambOptions {
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
  std::string name = "lamb";
};

// Adam whose step u of each variable w has w's length: m += (1 - beta_1) (g - m), v += (1 - beta_2) (g^2 - v),
// u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon), w -= rate * |w| / |u| * u; a ratio of a length of 0 is
// 1. Source: You et al. 2019, arXiv:1904.00962. Throws: invalid_argument for a beta outside of [0, 1); as
// OptimizerImpl. TF: keras.optimizers.Lamb
class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options = {});
};

}  // namespace tutti::keras::optimizers
