#pragma once

#include <cstdint>
#include <optional>
#include <vector>

// Learning rates that depend on the number of updates made so far, each a function of it. All throw invalid_argument
// where a number of steps is not positive. TF: tf.keras.optimizers.schedules
namespace tutti::keras::optimizers::schedules {

struct ExponentialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;  // required
  double decay_rate = 0;
  bool staircase = false;  // step / decay_steps is rounded down
};
// initial * decay_rate ^ (step / decay_steps)
class ExponentialDecay {
 public:
  explicit ExponentialDecay(const ExponentialDecayOptions& options);
  double operator()(int64_t step) const;
  const ExponentialDecayOptions& options() const { return options_; }

 private:
  ExponentialDecayOptions options_;
};

struct InverseTimeDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;  // required
  double decay_rate = 0;
  bool staircase = false;  // step / decay_steps is rounded down
};
// initial / (1 + decay_rate * step / decay_steps)
class InverseTimeDecay {
 public:
  explicit InverseTimeDecay(const InverseTimeDecayOptions& options);
  double operator()(int64_t step) const;
  const InverseTimeDecayOptions& options() const { return options_; }

 private:
  InverseTimeDecayOptions options_;
};

struct PiecewiseConstantDecayOptions {
  std::vector<double> boundaries = {};  // ascending
  std::vector<double> values = {};      // one more than boundaries
};
// values[i] for the first i with step <= boundaries[i], else the last value.
class PiecewiseConstantDecay {
 public:
  explicit PiecewiseConstantDecay(PiecewiseConstantDecayOptions options);
  double operator()(int64_t step) const;
  const PiecewiseConstantDecayOptions& options() const { return options_; }

 private:
  PiecewiseConstantDecayOptions options_;
};

struct PolynomialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;  // required
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;  // past the end, starts again with a multiple of decay_steps
};
// end + (initial - end) * (1 - step / decay_steps) ^ power
class PolynomialDecay {
 public:
  explicit PolynomialDecay(const PolynomialDecayOptions& options);
  double operator()(int64_t step) const;
  const PolynomialDecayOptions& options() const { return options_; }

 private:
  PolynomialDecayOptions options_;
};

struct CosineDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;  // required
  double alpha = 0;         // the end, as a part of the rate that the decay starts from
  std::optional<double> warmup_target = {};
  int64_t warmup_steps = 0;  // linear, from initial_learning_rate to warmup_target, before the decay
};
// Half a cosine wave from the top down. Source: Loshchilov & Hutter 2016, arXiv:1608.03983
class CosineDecay {
 public:
  explicit CosineDecay(const CosineDecayOptions& options);
  double operator()(int64_t step) const;
  const CosineDecayOptions& options() const { return options_; }

 private:
  CosineDecayOptions options_;
};

struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0;
  int64_t first_decay_steps = 0;  // required
  double t_mul = 2;               // each period is this times as long as the one before it
  double m_mul = 1;               // and starts from this part of its rate
  double alpha = 0;
};
// Cosine decay, again and again; where periods shrink, alpha after the last. Source: the same paper. Throws: also
// invalid_argument for a t_mul that is not positive.
class CosineDecayRestarts {
 public:
  explicit CosineDecayRestarts(const CosineDecayRestartsOptions& options);
  double operator()(int64_t step) const;
  const CosineDecayRestartsOptions& options() const { return options_; }

 private:
  CosineDecayRestartsOptions options_;
};

}  // namespace tutti::keras::optimizers::schedules
