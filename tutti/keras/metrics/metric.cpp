#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {

struct Metric::State {
  std::string name;
  Contribution contribution;
  Result result;
  Shape shape;  // kUnknown where the first contribution says
  Direction direction;
  PerReplicaSlot<Tensor> sum;  // float64; undefined: zero

  // The sums of all replicas together; undefined: nothing was added.
  Tensor total() {
    Tensor total;
    for (const Tensor& part : sum.values()) {
      if (!part.defined()) continue;
      if (total.defined() && total.sizes() != part.sizes()) refuse_shape(part.sizes(), total.sizes());
      total = total.defined() ? total.add_(part.cpu()) : part.to(at::kCPU, at::kDouble, false, /*copy=*/true);
    }
    return total;
  }

  [[noreturn]] void refuse_shape(at::IntArrayRef seen, at::IntArrayRef required) const {
    throw Error(ErrorCode::invalid_argument,
                str(name, ": these samples have a state of shape ", to_string(seen), ", those before of ",
                    to_string(required), "; the number of classes must stay, or reset_state() come first"));
  }
};

Metric::Metric(std::string name, at::IntArrayRef state_shape, Contribution contribution, Result result,
               Direction direction)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->contribution = std::move(contribution);
  state_->result = std::move(result);
  state_->shape = state_shape.vec();
  state_->direction = direction;
}

Tensor Metric::contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                            const Tensor& mask) const {
  const c10::NoGradGuard no_grad;
  return state_->contribution(y_true, y_pred, masked_weight(state_->name, sample_weight, mask));
}

void Metric::add(const Tensor& contribution) const {
  const c10::NoGradGuard no_grad;
  Tensor& sum = *state_->sum;
  if (!sum.defined()) {
    sum = contribution.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    return;
  }
  if (sum.sizes() != contribution.sizes()) state_->refuse_shape(contribution.sizes(), sum.sizes());
  sum.add_(contribution.to(sum.device()));
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                          const Tensor& mask) const {
  add(contribution(y_true, y_pred, sample_weight, mask));
}

Tensor Metric::result() const {
  const c10::NoGradGuard no_grad;
  const ThreadViewGuard outside_of_scopes({});
  Tensor total = state_->total();
  if (!total.defined()) {
    if (std::count(state_->shape.begin(), state_->shape.end(), kUnknown) > 0)
      throw Error(ErrorCode::failed_precondition,
                  str(state_->name, ": no samples were seen, so the number of classes is not known; update it first"));
    total = at::zeros(state_->shape, at::kDouble);
  }
  return state_->result(total);
}

void Metric::reset_state() const {
  for (Tensor& sum : state_->sum.values()) sum.reset();
}

const std::string& Metric::name() const { return state_->name; }
Direction Metric::direction() const { return state_->direction; }

}  // namespace tutti::keras::metrics
