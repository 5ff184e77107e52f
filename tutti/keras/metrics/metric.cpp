#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/tensor/view.h"

namespace tutti::keras::metrics {

struct Metric::State {
  std::string name;
  Contribution contribution;
  Result result;
  std::vector<int64_t> shape;
  std::mutex mutex;
  std::deque<Tensor> sums;  // guarded by mutex; float64; of global view, then of each replica; undefined: zero

  Tensor& sum_of_this_thread() {
    const auto index = static_cast<size_t>(ThreadView::current().replica + 1);
    const std::lock_guard lock(mutex);
    while (sums.size() <= index) sums.emplace_back();
    return sums[index];
  }
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
  Tensor& sum = state_->sum_of_this_thread();
  if (!sum.defined())
    sum = contribution.to(at::kDouble);
  else
    sum.add_(contribution);
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  add(contribution(y_true, y_pred, sample_weight));
}

Tensor Metric::result() const {
  const c10::NoGradGuard no_grad;
  const ThreadViewGuard outside_of_scopes({});
  Tensor total = at::zeros(state_->shape, at::kDouble);
  for (const Tensor& sum : state_->sums)
    if (sum.defined()) total.add_(sum.cpu());
  return state_->result(total);
}

void Metric::reset_state() const { state_->sums.clear(); }

const std::string& Metric::name() const { return state_->name; }

}  // namespace tutti::keras::metrics
