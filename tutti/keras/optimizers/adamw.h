#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  // Of every optimizer; CommonOptions says what they do.
  double weight_decay = 0.004;
  std::optional<double> clipnorm = {};
  std::optional<double> global_clipnorm = {};
  std::optional<double> clipvalue = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::string name = "adamw";
};

// Adam with the weight decay that it is named for. Source: Loshchilov & Hutter 2019, arXiv:1711.05101.
// Throws: as Adam. TF: tf.keras.optimizers.AdamW
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

}  // namespace tutti::keras::optimizers
