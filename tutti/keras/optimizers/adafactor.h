#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdafactorOptions {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
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
  std::string name = "adafactor";
};

// Adam without the first moment, and with the second one, of variables of two axes or more, kept as the means r and c
// over their last two axes: with s = g^2 + epsilon_1, b = 1 - t^beta_2_decay and rms(x) = sqrt(mean(x^2)),
//   r = b r + (1 - b) mean(s, -1), c = b c + (1 - b) mean(s, -2), v = r / mean(r, -1) * c, or v = b v + (1 - b) s,
//   u = g / sqrt(v), w -= max(epsilon_2, rms(w)) * min(rate, 1 / sqrt(t)) * u / max(1, rms(u) / clip_threshold).
// Keras's relative_step changes nothing, and is left out. Source: Shazeer & Stern 2018, arXiv:1804.04235.
// Throws: invalid_argument for a clip_threshold that is not positive; as OptimizerImpl. TF:
// tf.keras.optimizers.Adafactor
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorOptions& options = {});
};

}  // namespace tutti::keras::optimizers
