#include "tutti/keras/optimizers/optimizer_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/reduce.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras::optimizers {
namespace {

// The factor that brings a gradient of this norm down to the limit: limit / max(norm, limit).
Tensor shrink_factor(const Tensor& norm, double limit) { return limit / norm.clamp_min(limit); }

// What a replica brings to the meeting.
struct Share {
  std::span<const Tensor> gradients;
  std::span<const Tensor> variables;
};

// The sums of the replicas' gradients, variable by variable, in replica order, on the variables' mesh; a gradient that
// a replica lacks counts as zero. Undefined where all lack it.
std::vector<Tensor> sums_of_gradients(std::span<void* const> shares) {
  const auto variables = static_cast<const Share*>(shares[0])->variables;
  std::vector<BufferSum> sums;
  std::vector<size_t> owners;  // of the sums
  for (size_t i = 0; i < variables.size(); ++i) {
    std::vector<Tensor> gradients;
    for (const void* share : shares)
      if (const Tensor& gradient = static_cast<const Share*>(share)->gradients[i]; gradient.defined())
        gradients.push_back(gradient);
    if (gradients.empty()) continue;
    require_reducible(gradients);
    sums.push_back({.values = {gradients.begin(), gradients.end()}});
    owners.push_back(i);
  }
  get_strategy().reduce_gradients(sums);
  std::vector<Tensor> results(variables.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    const Tensor& variable = variables[owners[k]];
    results[owners[k]] = is_mesh_tensor(variable)
                             ? make_mesh_tensor(mesh_impl(variable).mesh_shape(), std::move(sums[k].result))
                             : std::move(sums[k].result);
  }
  return results;
}

}  // namespace

OptimizerImpl::OptimizerImpl(CommonOptions options, size_t num_slots)
    : options_(std::move(options)), num_slots_(num_slots) {
  if (options_.clipnorm.has_value() + options_.global_clipnorm.has_value() + options_.clipvalue.has_value() > 1)
    throw Error(ErrorCode::invalid_argument,
                str(name(), ": more than one of clipnorm, global_clipnorm and clipvalue is set; set one of them"));
}

void OptimizerImpl::apply_gradients(std::span<const Tensor> gradients, std::span<const Tensor> variables,
                                    std::source_location location) {
  if (gradients.size() != variables.size())
    throw Error(ErrorCode::invalid_argument, str(name(), ".apply_gradients: ", gradients.size(), " gradients for ",
                                                 variables.size(), " variables; there must be one for each"));
  if (!has_strategy() || in_cross_replica_context()) return update(gradients, variables);
  Share share{gradients, variables};
  get_replica_context(location).meet("apply_gradients", &share, [&](std::span<void* const> shares) {
    for (const void* other : shares)
      if (static_cast<const Share*>(other)->variables.size() != variables.size())
        throw Error(ErrorCode::invalid_argument,
                    str(name(), ".apply_gradients: the replicas pass lists of different length"));
    const c10::NoGradGuard no_grad;
    update(sums_of_gradients(shares), variables);
  });
}

void OptimizerImpl::update(std::span<const Tensor> gradients, std::span<const Tensor> variables) {
  const c10::NoGradGuard no_grad;
  std::vector<Tensor> clipped(gradients.begin(), gradients.end());
  if (std::ranges::none_of(clipped, &Tensor::defined))
    throw Error(ErrorCode::invalid_argument,
                str(name(), ".apply_gradients: no variable has a gradient; does the loss depend on them?"));
  clip(clipped);
  const UpdateStep step{.learning_rate = learning_rate(), .number = iterations_ + 1};
  for (size_t i = 0; i < clipped.size(); ++i) {
    if (!clipped[i].defined()) {
      if (!std::exchange(warned_of_missing_gradients_, true))
        warn(str(name(), ": some variables have no gradient and stay as they are"));
      continue;
    }
    const VariableState& state = state_of(variables[i], i);
    if (options_.weight_decay) state.variable.mul_(1 - *options_.weight_decay * step.learning_rate);
    update_variable(clipped[i], state.variable, state.slots, step);
  }
  ++iterations_;
}

void OptimizerImpl::build(std::span<const Tensor> variables) {
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < variables.size(); ++i) state_of(variables[i], i);
}

namespace {

// The slots of one variable.
class Slots : public Savable {
 public:
  explicit Slots(std::span<const Tensor> slots) : slots_(slots) {}
  void visit_state(StateVisitor& visitor) override {
    for (size_t slot = 0; slot < slots_.size(); ++slot) visitor.tensor(str("slot_", slot), slots_[slot]);
  }

 private:
  std::span<const Tensor> slots_;
};

}  // namespace

void OptimizerImpl::visit_state(StateVisitor& visitor) {
  visitor.number("iterations", iterations_);
  if (auto rate = options_.learning_rate.number()) {
    visitor.number("learning_rate", *rate);
    if (visitor.restoring()) set_learning_rate(*rate);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    Slots slots(states_[i].slots);
    visitor.object(std::to_string(i), slots);
  }
  if (visitor.has(std::to_string(states_.size()), false))
    throw Error(ErrorCode::failed_precondition,
                str(name(), ": the state of more than the ", states_.size(),
                    " variables that it knows was saved; call build(variables) before restoring"));
}

std::vector<Tensor> OptimizerImpl::state() const {
  std::vector<Tensor> tensors;
  for (const VariableState& state : states_) tensors.insert(tensors.end(), state.slots.begin(), state.slots.end());
  return tensors;
}

const OptimizerImpl::VariableState& OptimizerImpl::state_of(const Tensor& variable, size_t expected_position) {
  const auto is_variable = [&](const VariableState& state) { return state.variable.is_same(variable); };
  if (expected_position < states_.size() && is_variable(states_[expected_position])) return states_[expected_position];
  if (const auto found = std::ranges::find_if(states_, is_variable); found != states_.end()) return *found;
  VariableState state{.variable = variable};
  for (size_t slot = 0; slot < num_slots_; ++slot) state.slots.push_back(at::zeros_like(variable));
  return states_.emplace_back(std::move(state));
}

void OptimizerImpl::clip(std::vector<Tensor>& gradients) const {
  const auto for_each_defined = [&](auto&& change) {
    for (Tensor& gradient : gradients)
      if (gradient.defined()) gradient = change(gradient);
  };
  if (options_.clipvalue)
    for_each_defined([&](const Tensor& g) { return g.clamp(-*options_.clipvalue, *options_.clipvalue); });
  if (options_.clipnorm)
    for_each_defined([&](const Tensor& g) { return g * shrink_factor(g.norm(), *options_.clipnorm); });
  if (options_.global_clipnorm) {
    std::vector<Tensor> squares;
    for (const Tensor& gradient : gradients)
      if (gradient.defined()) squares.push_back(gradient.square().sum());
    const Tensor factor = shrink_factor(at::stack(squares).sum().sqrt(), *options_.global_clipnorm);
    for_each_defined([&](const Tensor& g) { return g * factor; });
  }
}

}  // namespace tutti::keras::optimizers
