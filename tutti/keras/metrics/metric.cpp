#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/per_replica_slot.h"
#include "tutti/distribute/strategy.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/shape.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::metrics {

struct Metric::State {
  std::string name;
  Contribution contribution;
  Result result;
  Shape shape;  // kUnknown where the first contribution says
  Direction direction;
  MadeFrom made_from = {};
  PerReplicaSlot<Tensor> sum = {};  // float64; undefined: zero
  // Those that have sums too: of the strategy that the metric was made under, or is updated in the replicas of.
  PerReplicaSlot<std::shared_ptr<Processes>> processes = {};

  // Of a metric with a state of its own; else no update.
  Update update = {};
  StatesResult states_result = {};
  States initial = {};
  States states = {};  // empty: initial

  Tensor result_of_sum(Tensor total) const {
    if (!total.defined()) {
      if (std::count(shape.begin(), shape.end(), kUnknown) > 0)
        throw Error(ErrorCode::failed_precondition,
                    str(name, ": no samples were seen, so the number of classes is not known; update it first"));
      total = at::zeros(shape, at::kDouble);
    }
    return result(total);
  }

  Tensor result_of_states(const States& seen) const { return states_result(seen.empty() ? initial : seen); }

  // The sum with a contribution added in place, or a copy of the contribution.
  void add_to(Tensor& sum_so_far, const Tensor& contribution) const {
    if (!sum_so_far.defined()) {
      sum_so_far = contribution.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
      return;
    }
    if (sum_so_far.sizes() != contribution.sizes()) refuse_shape(contribution.sizes(), sum_so_far.sizes());
    sum_so_far.add_(contribution.to(sum_so_far.device()));
  }

  // The sums of all replicas together; undefined: nothing was added.
  Tensor total() {
    Tensor total;
    for (const Tensor& part : sum.values()) {
      if (!part.defined()) continue;
      if (total.defined() && total.sizes() != part.sizes()) refuse_shape(part.sizes(), total.sizes());
      total = total.defined() ? total.add_(part.cpu()) : part.to(at::kCPU, at::kDouble, false, /*copy=*/true);
    }
    return sum_over_processes(total);
  }

  Tensor sum_over_processes(const Tensor& own) {
    const auto& known = processes.values();
    const auto found = std::ranges::find_if(known, [](const auto& of_replica) { return of_replica != nullptr; });
    if (found == known.end()) return own;
    Tensor total;
    for (const auto& parts : gather_tensors(**found, {&own, 1}, name.c_str()))
      if (const Tensor& part = parts[0]; part.defined()) total = total.defined() ? total.add(part) : part;
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

Metric::Metric(std::string name, States initial, Update update, StatesResult result, Direction direction)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->initial = std::move(initial);
  state_->update = std::move(update);
  state_->states_result = std::move(result);
  state_->direction = direction;
}

Tensor Metric::contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                            const Tensor& mask) const {
  const c10::NoGradGuard no_grad;
  if (state_->update)
    throw Error(ErrorCode::failed_precondition,
                str(state_->name, ": the metric has a state of its own and no contributions; call update_state"));
  return state_->contribution(y_true, y_pred, masked_weight(state_->name, sample_weight, mask));
}

void Metric::add(const Tensor& contribution) const {
  const c10::NoGradGuard no_grad;
  if (in_replica_function()) *state_->processes = get_strategy().processes();
  host_step("update_state", contribution, {}, [state = state_, &sum = *state_->sum](at::ArrayRef<Tensor> inputs) {
    const c10::NoGradGuard no_graph;
    state->add_to(sum, inputs[0]);
  });
}

Share Metric::share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, const Tensor& mask) const {
  if (!state_->update) return {contribution(y_true, y_pred, sample_weight, mask)};
  const c10::NoGradGuard no_grad;
  return {y_true, y_pred.detach(), masked_weight(state_->name, sample_weight, mask)};
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                          const Tensor& mask) const {
  if (!state_->update) return add(contribution(y_true, y_pred, sample_weight, mask));
  require_global_view(str(state_->name, ".update_state"),
                      "the metric has one state of its own, update it outside of run with what the replicas return");
  const Share seen = share(y_true, y_pred, sample_weight, mask);
  const c10::NoGradGuard no_grad;
  host_step("update_state", seen, {}, [state = state_](at::ArrayRef<Tensor> inputs) {
    const c10::NoGradGuard no_graph;
    state->states =
        state->update(state->states.empty() ? state->initial : state->states, inputs[0], inputs[1], inputs[2]);
  });
}

Tensor Metric::result() const {
  const c10::NoGradGuard no_grad;
  const GlobalViewGuard outside_of_scopes;
  return state_->update ? state_->result_of_states(state_->states) : state_->result_of_sum(state_->total());
}

void Metric::reset_state() const {
  for (Tensor& sum : state_->sum.values()) sum.reset();
  state_->states.clear();
}

const std::string& Metric::name() const { return state_->name; }
Direction Metric::direction() const { return state_->direction; }
const MadeFrom& Metric::made_from() const { return state_->made_from; }
void Metric::tell_made_from(MadeFrom made_from) const { state_->made_from = std::move(made_from); }

RunningMetric::RunningMetric(Metric metric) : metric_(std::move(metric)) {}

void RunningMetric::add(std::span<const Share> shares) {
  const c10::NoGradGuard no_grad;
  const Metric::State& metric = *metric_.state_;
  if (!metric.update) {
    for (const Share& share : shares) metric.add_to(sum_, share.at(0));
    return;
  }
  Share batch = shares[0];
  for (size_t part = 0; shares.size() > 1 && part < batch.size(); ++part) {
    if (!batch[part].defined()) continue;
    std::vector<Tensor> pieces;
    for (const Share& share : shares) pieces.push_back(share[part].to(batch[part].device()));
    batch[part] = at::cat(pieces);
  }
  states_ = metric.update(states_.empty() ? metric.initial : states_, batch.at(0), batch.at(1), batch.at(2));
}

Tensor RunningMetric::result() const {
  const c10::NoGradGuard no_grad;
  const GlobalViewGuard outside_of_scopes;
  const Metric::State& metric = *metric_.state_;
  return metric.update
             ? metric.result_of_states(states_)
             : metric.result_of_sum(sum_.defined() ? sum_.to(at::kCPU, at::kDouble, false, /*copy=*/true) : Tensor());
}

}  // namespace tutti::keras::metrics
