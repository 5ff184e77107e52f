#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct MuonOptions {
  LearningRate learning_rate = 0.001;
  double adam_beta_1 = 0.9;
  double adam_beta_2 = 0.999;
  std::optional<double> adam_weight_decay = 0.004;
  double epsilon = 1e-7;                         // of Adam
  std::vector<std::string> exclude_layers = {};  // texts in the paths of variables that Adam trains
  bool exclude_embeddings = true;                // Adam trains those with "embedding" in their path
  double muon_a = 3.4445;
  double muon_b = -4.7750;
  double muon_c = 2.0315;
  double adam_lr_ratio = 1;  // Adam's learning rate over the other one
  double momentum = 0.95;
  int64_t ns_steps = 5;
  bool nesterov = true;
  std::optional<double> rms_rate = 0.2;  // the step times this and the root of the matrix's longer side
  // Of every optimizer; CommonOptions says what they do.
  std::optional<double> weight_decay = 0.004;  // of matrices
  std::optional<double> clipnorm = {};
  std::optional<double> global_clipnorm = {};
  std::optional<double> clipvalue = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::string name = "muon";
};

// Steps of matrices that turn all directions alike: m = momentum * m + g, u = g + momentum * m (nesterov) or m, brought
// near the nearest orthogonal matrix by Newton and Schulz's iteration x = a x + (b x x' + c (x x')^2) x, from u / |u|;
// w -= rate * rms_rate * sqrt(longer side) * x. Variables that are no matrices, and those excluded, are Adam's with
// decoupled weight decay. Paths are those of the outermost model that is built before the first update.
// Source: Jordan et al. 2024, Muon; Liu et al. 2025, arXiv:2502.16982. Throws: invalid_argument for betas outside of
// [0, 1), ns_steps below 1; as OptimizerImpl. TF: keras.optimizers.Muon
class Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});
};

}  // namespace tutti::keras::optimizers
