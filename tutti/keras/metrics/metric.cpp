#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace tutti::keras::metrics {

struct Metric::State {
  std::string name;
  Contribution contribution;
  Result result;
  Tensor sum;  // float64, on the device of the first contribution
};

Metric::Metric(std::string name, at::IntArrayRef state_shape, Contribution contribution, Result result)
    : state_(std::make_shared<State>(State{.name = std::move(name),
                                           .contribution = std::move(contribution),
                                           .result = std::move(result),
                                           .sum = at::zeros(state_shape, at::kDouble)})) {}

Tensor Metric::contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  const c10::NoGradGuard no_grad;
  return state_->contribution(y_true, y_pred, sample_weight);
}

void Metric::add(const Tensor& contribution) const {
  const c10::NoGradGuard no_grad;
  if (state_->sum.device() != contribution.device()) state_->sum = state_->sum.to(contribution.device());
  state_->sum.add_(contribution);
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  add(contribution(y_true, y_pred, sample_weight));
}

Tensor Metric::result() const {
  const c10::NoGradGuard no_grad;
  return state_->result(state_->sum);
}

void Metric::reset_state() const { state_->sum.zero_(); }

const std::string& Metric::name() const { return state_->name; }

}  // namespace tutti::keras::metrics
