#include "tutti/keras/optimizers/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras::optimizers::schedules {
namespace {

void require_positive(const char* schedule, const char* field, int64_t steps) {
  if (steps <= 0)
    throw Error(ErrorCode::invalid_argument, str(schedule, ": ", field, " is ", steps, "; it must be positive"));
}

double share_of(int64_t step, int64_t steps, bool staircase) {
  const double share = static_cast<double>(step) / static_cast<double>(steps);
  return staircase ? std::floor(share) : share;
}

// From 1 down to alpha as progress goes from 0 to 1.
double cosine(double progress, double alpha) {
  return (1 - alpha) * (1 + std::cos(std::numbers::pi * progress)) / 2 + alpha;
}

}  // namespace

ExponentialDecay::ExponentialDecay(const ExponentialDecayOptions& options) : options_(options) {
  require_positive("ExponentialDecay", "decay_steps", options.decay_steps);
}

double ExponentialDecay::operator()(int64_t step) const {
  return options_.initial_learning_rate *
         std::pow(options_.decay_rate, share_of(step, options_.decay_steps, options_.staircase));
}

InverseTimeDecay::InverseTimeDecay(const InverseTimeDecayOptions& options) : options_(options) {
  require_positive("InverseTimeDecay", "decay_steps", options.decay_steps);
}

double InverseTimeDecay::operator()(int64_t step) const {
  return options_.initial_learning_rate /
         (1 + options_.decay_rate * share_of(step, options_.decay_steps, options_.staircase));
}

PiecewiseConstantDecay::PiecewiseConstantDecay(PiecewiseConstantDecayOptions options) : options_(std::move(options)) {
  const auto& [boundaries, values] = options_;
  if (values.size() != boundaries.size() + 1 || !std::ranges::is_sorted(boundaries))
    throw Error(ErrorCode::invalid_argument,
                str("PiecewiseConstantDecay: boundaries ", str_list(boundaries), " and values ", str_list(values),
                    "; boundaries must ascend, with one value more than boundaries"));
}

double PiecewiseConstantDecay::operator()(int64_t step) const {
  const auto& [boundaries, values] = options_;
  const auto first_not_passed = std::ranges::lower_bound(boundaries, static_cast<double>(step));
  return values[static_cast<size_t>(first_not_passed - boundaries.begin())];
}

PolynomialDecay::PolynomialDecay(const PolynomialDecayOptions& options) : options_(options) {
  require_positive("PolynomialDecay", "decay_steps", options.decay_steps);
}

double PolynomialDecay::operator()(int64_t step) const {
  double share = share_of(step, options_.decay_steps, /*staircase=*/false);
  share = options_.cycle ? share / std::max(1.0, std::ceil(share)) : std::min(share, 1.0);
  return options_.end_learning_rate +
         (options_.initial_learning_rate - options_.end_learning_rate) * std::pow(1 - share, options_.power);
}

CosineDecay::CosineDecay(const CosineDecayOptions& options) : options_(options) {
  require_positive("CosineDecay", "decay_steps", options.decay_steps);
}

double CosineDecay::operator()(int64_t step) const {
  if (!options_.warmup_target)
    return options_.initial_learning_rate *
           cosine(std::min(share_of(step, options_.decay_steps, /*staircase=*/false), 1.0), options_.alpha);
  if (step < options_.warmup_steps)
    return options_.initial_learning_rate + (*options_.warmup_target - options_.initial_learning_rate) *
                                                share_of(step, options_.warmup_steps, /*staircase=*/false);
  const int64_t decayed = std::min(step - options_.warmup_steps, options_.decay_steps);
  return *options_.warmup_target * cosine(share_of(decayed, options_.decay_steps, /*staircase=*/false), options_.alpha);
}

CosineDecayRestarts::CosineDecayRestarts(const CosineDecayRestartsOptions& options) : options_(options) {
  require_positive("CosineDecayRestarts", "first_decay_steps", options.first_decay_steps);
  if (!(options.t_mul > 0))
    throw Error(ErrorCode::invalid_argument,
                str("CosineDecayRestarts: t_mul is ", options.t_mul, "; it must be positive"));
}

double CosineDecayRestarts::operator()(int64_t step) const {
  const double t_mul = options_.t_mul;
  const double periods = share_of(step, options_.first_decay_steps, /*staircase=*/false);
  // Where a period begins, in lengths of the first one.
  const auto begin = [&](double restart) { return (1 - std::pow(t_mul, restart)) / (1 - t_mul); };
  double restarts = std::floor(periods);
  double progress = periods - restarts;
  if (t_mul != 1) {
    const double left = 1 - periods * (1 - t_mul);
    if (left <= 0) return options_.initial_learning_rate * options_.alpha;  // shrinking periods have an end
    restarts = std::floor(std::log(left) / std::log(t_mul));
    if (begin(restarts + 1) <= periods) ++restarts;  // the logarithms were rounded
    progress = (periods - begin(restarts)) / std::pow(t_mul, restarts);
  }
  const double wave = std::pow(options_.m_mul, restarts) * cosine(progress, 0);
  return options_.initial_learning_rate * ((1 - options_.alpha) * wave + options_.alpha);
}

}  // namespace tutti::keras::optimizers::schedules
