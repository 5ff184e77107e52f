#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <utility>
#include <vector>

#include "tutti/distribute/per_replica_slot.h"

namespace tutti::keras::metrics {

struct Metric::State {
  std::string name;
  Contribution contribution;
  Result result;
  std::vector<int64_t> shape;
  PerReplicaSlot<Tensor> sum;  // float64; undefined: zero
};

Metric::Metric(std::string name, at::IntArrayRef state_shape, Contribution contribution, Result result)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->contribution = std::move(contribution);
  state_->result = std::move(result);
  state_->shape = state_shape.vec();
}

Tensor Metric::contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  const c10::NoGradGuard no_grad;
  return state_->contribution(y_true, y_pred, sample_weight);
}

void Metric::add(const Tensor& contribution) const {
  const c10::NoGradGuard no_grad;
  Tensor& sum = *state_->sum;
  if (!sum.defined())
    sum = contribution.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  else
    sum.add_(contribution.to(sum.device()));
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  add(contribution(y_true, y_pred, sample_weight));
}

Tensor Metric::result() const {
  const c10::NoGradGuard no_grad;
  const ThreadViewGuard outside_of_scopes({});
  Tensor total = at::zeros(state_->shape, at::kDouble);
  for (const Tensor& sum : state_->sum.values())
    if (sum.defined()) total.add_(sum.cpu());
  return state_->result(total);
}

void Metric::reset_state() const {
  for (Tensor& sum : state_->sum.values()) sum.reset();
}

const std::string& Metric::name() const { return state_->name; }

}  // namespace tutti::keras::metrics
