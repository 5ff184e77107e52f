#include "tutti/distribute/servers/torch_updates.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "tutti/checkpoint/optimizer_options.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/servers/served_updates.h"
#include "tutti/tensor/updates/buffer_updates.h"
#include "tutti/tensor/updates/slot_buffers.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

constexpr double kNoState = -1;

// What the classes keep of a parameter: tensors of its shape, and for all but SGD the number of its steps.
using StateTensors = std::vector<Tensor*>;

StateTensors tensors_of(torch::optim::SGDParamState& state, const torch::optim::SGDOptions& options) {
  return options.momentum() == 0 ? StateTensors{} : StateTensors{&state.momentum_buffer()};
}
template <class State, class Options>
StateTensors tensors_of_adam(State& state, const Options& options) {
  StateTensors tensors{&state.exp_avg(), &state.exp_avg_sq()};
  if (options.amsgrad()) tensors.push_back(&state.max_exp_avg_sq());
  return tensors;
}
StateTensors tensors_of(torch::optim::AdamParamState& state, const torch::optim::AdamOptions& options) {
  return tensors_of_adam(state, options);
}
StateTensors tensors_of(torch::optim::AdamWParamState& state, const torch::optim::AdamWOptions& options) {
  return tensors_of_adam(state, options);
}
StateTensors tensors_of(torch::optim::AdagradParamState& state, const torch::optim::AdagradOptions&) {
  return {&state.sum()};
}
StateTensors tensors_of(torch::optim::RMSpropParamState& state, const torch::optim::RMSpropOptions& options) {
  StateTensors tensors{&state.square_avg()};
  if (options.momentum() > 0) tensors.push_back(&state.momentum_buffer());
  if (options.centered()) tensors.push_back(&state.grad_avg());
  return tensors;
}

template <class State>
double step_of(const State& state) {
  return static_cast<double>(state.step());
}
double step_of(const torch::optim::SGDParamState&) { return 0; }
template <class State>
void set_step(State& state, double step) {
  state.step(static_cast<int64_t>(step));
}
void set_step(torch::optim::SGDParamState&, double) {}

// One of LibTorch's classes.
struct OptimizerClass {
  const char* name;
  bool takes_sparse;  // gradients
  std::unique_ptr<Optimizer> (*make)(torch::optim::OptimizerParamGroup group);
  std::unique_ptr<OptimizerParamState> (*make_state)();
  StateTensors (*tensors)(OptimizerParamState& state, const OptimizerOptions& options);
  double (*step)(const OptimizerParamState& state);
  void (*set_step)(OptimizerParamState& state, double step);
};

template <class Class, class State, class Options>
OptimizerClass class_of(const char* name, bool takes_sparse) {
  return {.name = name,
          .takes_sparse = takes_sparse,
          .make = [](torch::optim::OptimizerParamGroup group) -> std::unique_ptr<Optimizer> {
            const auto options = static_cast<const Options&>(group.options());
            return std::make_unique<Class>(std::vector{std::move(group)}, options);
          },
          .make_state = []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<State>(); },
          .tensors =
              [](OptimizerParamState& state, const OptimizerOptions& options) {
                return tensors_of(static_cast<State&>(state), static_cast<const Options&>(options));
              },
          .step = [](const OptimizerParamState& state) { return step_of(static_cast<const State&>(state)); },
          .set_step = [](OptimizerParamState& state, double step) { set_step(static_cast<State&>(state), step); }};
}

OptimizerClass class_of(const Optimizer& optimizer) {
  using namespace torch::optim;
  const std::type_info& type = typeid(optimizer);  // of a class that is derived from one of these the steps are its own
  if (type == typeid(SGD)) return class_of<SGD, SGDParamState, SGDOptions>("torch::optim::SGD", true);
  if (type == typeid(Adam)) return class_of<Adam, AdamParamState, AdamOptions>("torch::optim::Adam", false);
  if (type == typeid(AdamW)) return class_of<AdamW, AdamWParamState, AdamWOptions>("torch::optim::AdamW", false);
  if (type == typeid(Adagrad))
    return class_of<Adagrad, AdagradParamState, AdagradOptions>("torch::optim::Adagrad", true);
  if (type == typeid(RMSprop))
    return class_of<RMSprop, RMSpropParamState, RMSpropOptions>("torch::optim::RMSprop", false);
  if (type == typeid(LBFGS))
    throw Error(ErrorCode::unimplemented,
                "ParameterServerStrategy: torch::optim::LBFGS cannot be on servers: a step of it computes the loss "
                "several times, and looks at all variables together; use SGD, Adam, AdamW, Adagrad or RMSprop");
  throw Error(
      ErrorCode::unimplemented,
      str("ParameterServerStrategy: an optimizer of type ", type.name(),
          " cannot be on servers; torch::optim's SGD, Adam, AdamW, Adagrad and RMSprop can, and those of Keras"));
}

double number_of(const OptimizerOptions& options, std::string_view name, double otherwise) {
  for (const auto& [each, number] : checkpoint::option_numbers(options))
    if (each == name) return number;
  return otherwise;
}

bool decays(const OptimizerOptions& options) { return number_of(options, "weight_decay", 0) != 0; }

// Where servers make the updates of the strategy that this thread is under; else null.
std::shared_ptr<ServedUpdates> updates_of_current_strategy() {
  const auto* strategy = has_strategy() ? dynamic_cast<const ParameterServerStrategy*>(&get_strategy()) : nullptr;
  return strategy ? strategy->served_updates() : nullptr;
}

}  // namespace

// The optimizer, with tensors of the servers in the place of those that it makes for its state.
struct TorchUpdates::State {
  struct Parameter {
    Tensor variable;
    size_t group;
    std::vector<Tensor> slots = {};
  };

  State(const std::shared_ptr<Optimizer>& optimizer) : optimizer(optimizer) {}
  ServedOptimizer serve(const std::shared_ptr<State>& self, std::source_location location, SlotValues where);
  void add_parameters(SlotValues where);
  OptimizerParamState* find(const Parameter& parameter) const;
  StateTensors tensors(const Parameter& parameter, OptimizerParamState& state) const {
    return of->tensors(state, options(parameter.group));
  }
  const OptimizerOptions& options(size_t group) const { return optimizer->param_groups()[group].options(); }

  void take_slots();
  bool takes_sparse(size_t group) const;
  bool keeps_still(const Parameter& parameter) const;
  bool changes_rows_alone(const Parameter& parameter, bool is_sparse) const;
  const Parameter& parameter_of(const Tensor& variable) const;
  void step_rows(const Parameter& parameter, const Tensor& gradient);
  void apply(std::span<const ServedGradient> gradients, std::span<const Tensor> variables);
  std::vector<double> numbers() const;
  void set_numbers(std::span<const double> numbers);
  std::pair<std::vector<Tensor>, std::vector<Tensor>> gradients_and_variables(const ServedUpdates& servers) const;

  std::shared_ptr<Optimizer> optimizer;
  std::optional<OptimizerClass> of;
  std::vector<Parameter> parameters;
  SlotValues slot_values = SlotValues::here;
};

void TorchUpdates::State::add_parameters(SlotValues where) {
  slot_values = where;
  auto& groups = optimizer->param_groups();
  for (size_t group = 0; group < groups.size(); ++group)
    for (const Tensor& variable : groups[group].params()) {
      Parameter parameter{variable, group};
      const auto form = of->make_state();
      const std::vector<double> zeros(tensors(parameter, *form).size(), 0);
      parameter.slots = make_slot_buffers(std::span(&variable, 1), zeros, where)[0];
      parameters.push_back(std::move(parameter));
    }
}

// Null where it has none yet.
OptimizerParamState* TorchUpdates::State::find(const Parameter& parameter) const {
  const auto found = optimizer->state().find(parameter.variable.unsafeGetTensorImpl());
  return found == optimizer->state().end() ? nullptr : found->second.get();
}

// Its first step, and a checkpoint that is restored, give a parameter tensors of the optimizer's own: their values go
// into the servers' ones, which take their places.
void TorchUpdates::State::take_slots() {
  const c10::NoGradGuard no_grad;
  const GlobalViewGuard global_view;
  for (const Parameter& parameter : parameters) {
    OptimizerParamState* const state = find(parameter);
    if (!state) continue;
    const auto own = tensors(parameter, *state);
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i]->defined() || own[i]->is_same(parameter.slots[i])) continue;
      if (slot_values == SlotValues::here) parameter.slots[i].copy_(*own[i]);
      *own[i] = parameter.slots[i];
    }
  }
}

// Without making sparse tensors of its state.
bool TorchUpdates::State::takes_sparse(size_t group) const {
  return of->takes_sparse && number_of(options(group), "momentum", 0) == 0;
}

// Whether elements whose gradient is 0, and what is kept of them, stay as they are, and others become the same wherever
// they lie: LibTorch rounds 16-bit numbers in another way at the end of a tensor.
bool TorchUpdates::State::keeps_still(const Parameter& parameter) const {
  const at::ScalarType dtype = parameter.variable.scalar_type();
  const OptimizerOptions& by = options(parameter.group);
  const bool divides_by_zero = static_cast<float>(number_of(by, "eps", 1)) == 0;
  return (dtype == at::kFloat || dtype == at::kDouble) && takes_sparse(parameter.group) && !decays(by) &&
         !divides_by_zero;
}

// Whether the next step, by a gradient of rows, does not touch others, nor puts other slots in the place of those.
bool TorchUpdates::State::changes_rows_alone(const Parameter& parameter, bool is_sparse) const {
  if (is_sparse && decays(options(parameter.group))) return false;
  if (!(is_sparse ? takes_sparse(parameter.group) : keeps_still(parameter))) return false;
  OptimizerParamState* const state = find(parameter);
  if (!state) return parameter.slots.empty();
  const auto own = tensors(parameter, *state);
  for (size_t i = 0; i < own.size(); ++i)
    if (!own[i]->is_same(parameter.slots[i])) return false;
  return true;
}

const TorchUpdates::State::Parameter& TorchUpdates::State::parameter_of(const Tensor& variable) const {
  const auto is_it = [&](const Parameter& each) { return each.variable.is_same(variable); };
  const auto found = std::ranges::find_if(parameters, is_it);
  if (found == parameters.end())
    throw Error(ErrorCode::data_loss, str(of->name, ": rows came of a gradient of a tensor that it does not train"));
  return *found;
}

// The step of the gradient's rows alone, with the bits of a dense one: that of an optimizer of them and their state.
void TorchUpdates::State::step_rows(const Parameter& parameter, const Tensor& gradient) {
  const Tensor rows = gradient._indices()[0];
  const auto rows_of = [&](const Tensor& whole) { return whole.index_select(0, rows); };
  Tensor variable = parameter.variable, part = rows_of(variable);
  part.mutable_grad() = in_layout_of(part, gradient._values());
  const auto alone = of->make({{part}, options(parameter.group).clone()});
  OptimizerParamState* const state = find(parameter);
  StateTensors whole_state, state_of_rows;
  OptimizerParamState* alone_state = nullptr;
  if (state) {
    auto& copied = alone->state()[part.unsafeGetTensorImpl()] = state->clone();
    alone_state = copied.get();
    whole_state = tensors(parameter, *state);
    state_of_rows = tensors(parameter, *alone_state);
    for (Tensor* const each : state_of_rows) *each = rows_of(*each);
  }
  alone->step();
  variable.index_copy_(0, rows, part);
  for (size_t i = 0; i < whole_state.size(); ++i) whole_state[i]->index_copy_(0, rows, *state_of_rows[i]);
  if (state) of->set_step(*state, of->step(*alone_state));
}

void TorchUpdates::State::apply(std::span<const ServedGradient> gradients, std::span<const Tensor> variables) {
  const GlobalViewGuard global_view;
  optimizer->zero_grad();
  for (size_t i = 0; i < variables.size(); ++i) {
    Tensor gradient = gradients[i].value;
    if (gradient.is_sparse()) {
      const Parameter& parameter = parameter_of(variables[i]);
      if (!gradients[i].is_sparse && keeps_still(parameter)) {
        step_rows(parameter, gradient);
        continue;
      }
      if (!gradients[i].is_sparse || !takes_sparse(parameter.group)) gradient = gradient.to_dense();
    }
    variables[i].mutable_grad() = in_layout_of(variables[i], std::move(gradient));
  }
  optimizer->step();
  optimizer->zero_grad();
  take_slots();
}

// The options of each group, and of each parameter the number of its steps.
std::vector<double> TorchUpdates::State::numbers() const {
  std::vector<double> all;
  for (const auto& group : optimizer->param_groups()) {
    all.push_back(group.options().get_lr());
    for (const auto& [name, number] : checkpoint::option_numbers(group.options())) all.push_back(number);
  }
  for (const Parameter& parameter : parameters) {
    const OptimizerParamState* const state = find(parameter);
    all.push_back(state ? of->step(*state) : kNoState);
  }
  return all;
}

void TorchUpdates::State::set_numbers(std::span<const double> numbers) {
  if (numbers.size() != this->numbers().size())
    throw Error(ErrorCode::data_loss, str(of->name, ": numbers came that are not its own"));
  auto next = numbers.begin();
  for (auto& group : optimizer->param_groups()) {
    group.options().set_lr(*next++);
    for (const auto& [name, number] : checkpoint::option_numbers(group.options()))
      if (*next++ != number)
        throw Error(ErrorCode::unimplemented,
                    str(of->name, ": ", name, " was ", number, " when the optimizer was made, and is ", *(next - 1),
                        " now; of an optimizer that is on servers only the learning rate may change"));
  }
  for (const Parameter& parameter : parameters) {
    auto& states = optimizer->state();
    if (const double step = *next++; step == kNoState) {
      states.erase(parameter.variable.unsafeGetTensorImpl());
    } else {
      auto& state = states[parameter.variable.unsafeGetTensorImpl()];
      if (!state) state = of->make_state();
      of->set_step(*state, step);
      const auto own = tensors(parameter, *state);
      for (size_t i = 0; i < own.size(); ++i) *own[i] = parameter.slots[i];
    }
  }
}

ServedOptimizer TorchUpdates::State::serve(const std::shared_ptr<State>& self, std::source_location location,
                                           SlotValues where) {
  const c10::NoGradGuard no_grad;
  const GlobalViewGuard global_view;
  of = class_of(*optimizer);
  add_parameters(where);
  take_slots();
  ServedOptimizer to_serve{.name = of->name, .location = location};
  for (const Parameter& parameter : parameters) {
    to_serve.variables.push_back(parameter.variable);
    to_serve.slots.push_back(parameter.slots);
  }
  const auto alive = [weak = std::weak_ptr(self)] {
    if (auto state = weak.lock()) return state;
    throw Error(ErrorCode::failed_precondition, "an optimizer that servers use was let go");
  };
  to_serve.is_alive = [weak = std::weak_ptr(self)] { return !weak.expired(); };
  to_serve.settle = [alive] { alive()->take_slots(); };
  to_serve.apply = [alive](auto gradients, auto variables, double) { alive()->apply(gradients, variables); };
  to_serve.changes_rows_alone = [alive](const ServedGradient& gradient, const Tensor& variable) {
    const auto self = alive();
    return self->changes_rows_alone(self->parameter_of(variable), gradient.is_sparse);
  };
  to_serve.numbers = [alive] { return alive()->numbers(); };
  to_serve.set_numbers = [alive](std::span<const double> numbers) { alive()->set_numbers(numbers); };
  return to_serve;
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> TorchUpdates::State::gradients_and_variables(
    const ServedUpdates& servers) const {
  std::pair<std::vector<Tensor>, std::vector<Tensor>> both;
  for (const auto& group : optimizer->param_groups())
    for (const Tensor& variable : group.params()) {
      const Tensor& gradient = variable.grad();
      if (!gradient.defined()) continue;
      const bool with_decay = decays(group.options());
      if (gradient.is_sparse() && (with_decay || !of->takes_sparse) && !servers.is_elsewhere(variable))
        throw Error(ErrorCode::unimplemented, str(of->name, with_decay ? " with weight_decay" : "",
                                                  " takes no sparse gradients; make the table without sparse(true)"));
      both.first.push_back(gradient);
      both.second.push_back(variable);
    }
  return both;
}

TorchUpdates::TorchUpdates(const std::shared_ptr<Optimizer>& optimizer, std::source_location location)
    : state_(std::make_shared<State>(optimizer)) {
  const auto servers = updates_of_current_strategy();
  if (!servers) return;
  number_ = servers->add(state_->serve(state_, location, servers->pushes() ? SlotValues::elsewhere : SlotValues::here));
  served_ = servers;
}

void TorchUpdates::step() const {
  const auto servers = served_.lock();
  if (!servers) {
    if (const auto updates = updates_of_current_strategy(); updates && updates->pushes())
      throw Error(ErrorCode::failed_precondition,
                  "Optimizer::step: the servers do not know this optimizer; make it in the strategy's build, as every "
                  "task does");
  } else if (servers->pushes()) {
    const auto [gradients, variables] = state_->gradients_and_variables(*servers);
    if (!variables.empty()) servers->push(number_, gradients, variables, 1);
    return;
  }
  state_->optimizer->step();
}

}  // namespace tutti
