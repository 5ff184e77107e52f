#include "tutti/checkpoint/optimizer_state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <deque>
#include <limits>
#include <typeinfo>
#include <vector>

#include "tutti/checkpoint/object_graph.h"
#include "tutti/checkpoint/optimizer_options.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

// The state of one parameter, or, LBFGS's, of all of them in a row; walked over in place.
class Fields {
 public:
  Fields(StateVisitor& visitor, const Tensor& parameter) : visitor_(visitor), parameter_(parameter) {}

  // A tensor of the parameter's shape that the optimizer makes when it first needs it. One that is sparse, as the first
  // sparse gradient leaves it, is saved as a dense one and comes back so.
  void tensor(const std::string& name, Tensor& value) {
    if (!visitor_.has(name, value.defined())) {
      if (visitor_.restoring()) value = Tensor();
      return;
    }
    Tensor place = value;
    if (place.defined() && place.is_sparse()) place = visitor_.restoring() ? Tensor() : place.to_dense();
    if (!place.defined()) place = at::zeros_like(parameter_, c10::MemoryFormat::Preserve);
    if (visitor_.restoring()) value = place;
    visitor_.tensor(name, place);
  }

  template <class State>
  void step(State& state) {
    int64_t step = state.step();
    visitor_.number("step", step);
    if (visitor_.restoring()) state.step(step);
  }

  template <class Number>
  void number(const char* name, Number& value) {
    visitor_.number(name, value);
  }

  // A scalar, or several: as many as the optimizer has made so far.
  void scalar(const std::string& name, Tensor& value) {
    if (!visitor_.has(name, value.defined())) {
      if (visitor_.restoring()) value = Tensor();
      return;
    }
    double number = value.defined() ? value.item<double>() : 0;
    visitor_.number(name, number);
    if (visitor_.restoring()) value = at::scalar_tensor(number, parameter_.scalar_type());
  }
  void scalars(const char* name, std::deque<Tensor>& values) {
    visit_list(name, values, [&](const std::string& one, Tensor& value) { scalar(one, value); });
  }
  void tensors(const char* name, std::deque<Tensor>& values) {
    visit_list(name, values, [&](const std::string& one, Tensor& value) { tensor(one, value); });
  }

 private:
  // "NAME.0", "NAME.1", …: saving, those that there are; else those that were saved.
  template <class F>
  void visit_list(const char* name, std::deque<Tensor>& values, F visit_one) {
    size_t count = 0;
    for (; visitor_.has(str(name, '.', count), count < values.size()); ++count) {
      Tensor none;
      if (count == values.size() && visitor_.restoring()) values.emplace_back();
      visit_one(str(name, '.', count), count < values.size() ? values[count] : none);
    }
    if (visitor_.restoring()) values.resize(count);
  }

  StateVisitor& visitor_;
  const Tensor& parameter_;
};

void visit(torch::optim::SGDParamState& state, Fields& fields) {
  fields.tensor("momentum_buffer", state.momentum_buffer());
}

template <class AdamState>
void visit_adam(AdamState& state, Fields& fields) {
  fields.step(state);
  fields.tensor("exp_avg", state.exp_avg());
  fields.tensor("exp_avg_sq", state.exp_avg_sq());
  fields.tensor("max_exp_avg_sq", state.max_exp_avg_sq());
}
void visit(torch::optim::AdamParamState& state, Fields& fields) { visit_adam(state, fields); }
void visit(torch::optim::AdamWParamState& state, Fields& fields) { visit_adam(state, fields); }

void visit(torch::optim::AdagradParamState& state, Fields& fields) {
  fields.step(state);
  fields.tensor("sum", state.sum());
}

void visit(torch::optim::RMSpropParamState& state, Fields& fields) {
  fields.step(state);
  fields.tensor("square_avg", state.square_avg());
  fields.tensor("momentum_buffer", state.momentum_buffer());
  fields.tensor("grad_avg", state.grad_avg());
}

// But for `al`, which every step makes anew.
void visit(torch::optim::LBFGSParamState& state, Fields& fields) {
  fields.number("func_evals", state.func_evals());
  fields.number("n_iter", state.n_iter());
  fields.number("t", state.t());
  fields.number("prev_loss", state.prev_loss());
  fields.tensor("d", state.d());
  fields.scalar("H_diag", state.H_diag());
  fields.tensor("prev_flat_grad", state.prev_flat_grad());
  fields.tensors("old_dirs", state.old_dirs());
  fields.tensors("old_stps", state.old_stps());
  fields.scalars("ro", state.ro());
}

// A step takes for granted what the steps before it have made. What was not saved, as options did not need it, begins
// at zero; Adagrad's at its initial value.
void begin_at_zero(Tensor& value, const Tensor& parameter) {
  if (!value.defined()) value = at::zeros_like(parameter, c10::MemoryFormat::Preserve);
}

void complete(torch::optim::SGDParamState& state, const torch::optim::SGDOptions&, const Tensor& parameter) {
  begin_at_zero(state.momentum_buffer(), parameter);
}

template <class AdamState, class AdamOptions>
void complete_adam(AdamState& state, const AdamOptions& options, const Tensor& parameter) {
  begin_at_zero(state.exp_avg(), parameter);
  begin_at_zero(state.exp_avg_sq(), parameter);
  if (options.amsgrad()) begin_at_zero(state.max_exp_avg_sq(), parameter);
}
void complete(torch::optim::AdamParamState& state, const torch::optim::AdamOptions& options, const Tensor& parameter) {
  complete_adam(state, options, parameter);
}
void complete(torch::optim::AdamWParamState& state, const torch::optim::AdamWOptions& options,
              const Tensor& parameter) {
  complete_adam(state, options, parameter);
}

void complete(torch::optim::AdagradParamState& state, const torch::optim::AdagradOptions& options,
              const Tensor& parameter) {
  if (!state.sum().defined())
    state.sum(at::full_like(parameter, options.initial_accumulator_value(), {}, c10::MemoryFormat::Preserve));
}

void complete(torch::optim::RMSpropParamState& state, const torch::optim::RMSpropOptions& options,
              const Tensor& parameter) {
  begin_at_zero(state.square_avg(), parameter);
  if (options.momentum() > 0) begin_at_zero(state.momentum_buffer(), parameter);
  if (options.centered()) begin_at_zero(state.grad_avg(), parameter);
}

// The first iteration makes the rest.
void complete(torch::optim::LBFGSParamState& state, const torch::optim::LBFGSOptions&, const Tensor&) {
  if (!state.prev_flat_grad().defined()) state.n_iter(0);
}

using StatePtr = std::unique_ptr<torch::optim::OptimizerParamState>;

// The state of one parameter, which has this type.
template <class State, class Options>
class ParameterState : public Savable {
 public:
  ParameterState(StatePtr& state, const Options& options, const Tensor& parameter)
      : state_(state), options_(options), parameter_(parameter) {}

  void visit_state(StateVisitor& visitor) override {
    State fresh;
    if (!state_ && visitor.restoring()) state_ = std::make_unique<State>();
    State& state = state_ ? static_cast<State&>(*state_) : fresh;
    Fields fields(visitor, parameter_);
    visit(state, fields);
    if (visitor.restoring()) complete(state, options_, parameter_);
  }

 private:
  StatePtr& state_;
  const Options& options_;
  const Tensor& parameter_;
};

// Whose state it is, and what the tensors in it look like.
struct Place {
  const torch::optim::Optimizer& optimizer;
  const torch::optim::OptimizerOptions& options;  // of the parameter's group
  const std::string& name;
  const Tensor& form;
};

template <class Optimizer, class State, class Options>
bool visit_if(const Place& place, StatePtr& state, StateVisitor& visitor) {
  if (!dynamic_cast<const Optimizer*>(&place.optimizer)) return false;
  ParameterState<State, Options> part(state, static_cast<const Options&>(place.options), place.form);
  visitor.object(place.name, part);
  return true;
}

void visit_parameter(const Place& place, StatePtr& state, StateVisitor& visitor) {
  using namespace torch::optim;
  const bool known = visit_if<SGD, SGDParamState, SGDOptions>(place, state, visitor) ||
                     visit_if<Adam, AdamParamState, AdamOptions>(place, state, visitor) ||
                     visit_if<AdamW, AdamWParamState, AdamWOptions>(place, state, visitor) ||
                     visit_if<Adagrad, AdagradParamState, AdagradOptions>(place, state, visitor) ||
                     visit_if<RMSprop, RMSpropParamState, RMSpropOptions>(place, state, visitor) ||
                     visit_if<LBFGS, LBFGSParamState, LBFGSOptions>(place, state, visitor);
  if (!known)
    throw Error(ErrorCode::unimplemented,
                str("Checkpoint: the state of an optimizer of type ", typeid(place.optimizer).name(),
                    " cannot be saved; SGD, Adam, AdamW, Adagrad, RMSprop and LBFGS can, and any class that is a "
                    "tutti::Savable"));
}

// What the optimizer's state of this parameter looks like: LBFGS keeps one of all parameters in a row, by the first.
Tensor form_of_state(const torch::optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, size_t position) {
  if (!dynamic_cast<const torch::optim::LBFGS*>(&optimizer)) return parameters[position];
  std::vector<Tensor> rows;
  for (const Tensor& parameter : parameters) rows.push_back(parameter.reshape({-1}));
  return at::cat(rows);
}

// The program's stay; who changed one shall know that the training before had another.
void visit_options(const torch::optim::OptimizerOptions& options, size_t group, StateVisitor& visitor) {
  for (const auto& [name, now] : option_numbers(options)) {
    const std::string numbered = str(name, '_', group);
    if (!visitor.has(numbered, true)) continue;  // of a checkpoint that was written before they were kept
    double saved = now;
    visitor.number(numbered, saved);
    if (visitor.restoring() && saved != now)
      warn(str("Checkpoint: the optimizer's ", name, " (group ", group, ") was ", saved,
               " when it was saved; training goes on with the program's ", now));
  }
}

// How many parameters the optimizer had that was saved: none if none was, and any number where that was not kept.
int64_t visit_num_parameters(const torch::optim::Optimizer& optimizer, StateVisitor& visitor) {
  const char* const name = "num_parameters";
  if (!visitor.has(name, true)) return visitor.has("learning_rate_0", true) ? std::numeric_limits<int64_t>::max() : 0;
  int64_t count = 0;
  for (const auto& group : optimizer.param_groups()) count += static_cast<int64_t>(group.params().size());
  visitor.number(name, count);
  const auto* graph = dynamic_cast<const GraphVisitor*>(&visitor);
  return graph ? graph->saved_number(name).value_or(count) : count;
}

// Of a parameter without a saved state: whether the optimizer that was saved knew it, and had not updated it. Adagrad
// has a state of all that it knows.
bool was_without_state(const torch::optim::Optimizer& optimizer, int64_t position, int64_t num_saved) {
  return position < num_saved && !dynamic_cast<const torch::optim::Adagrad*>(&optimizer);
}

}  // namespace

void OptimizerState::visit_state(StateVisitor& visitor) {
  const c10::NoGradGuard no_grad;
  auto& states = optimizer_.state();
  const int64_t num_saved = visit_num_parameters(optimizer_, visitor);
  int64_t position = 0;
  size_t group_number = 0;
  for (auto& group : optimizer_.param_groups()) {
    double rate = group.options().get_lr();
    visitor.number(str("learning_rate_", group_number), rate);
    if (visitor.restoring()) group.options().set_lr(rate);
    visit_options(group.options(), group_number++, visitor);
    for (size_t i = 0; i < group.params().size(); ++i, ++position) {
      const Tensor& parameter = group.params()[i];
      const std::string name = std::to_string(position);
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      const bool now = found != states.end();
      if (visitor.has(name, now)) {
        StatePtr none;
        StatePtr& state = now ? found->second : none;
        const Tensor form = form_of_state(optimizer_, group.params(), i);
        visit_parameter({optimizer_, group.options(), name, form}, state, visitor);
        if (none) states[parameter.unsafeGetTensorImpl()] = std::move(none);
      } else if (now && !was_without_state(optimizer_, position, num_saved)) {
        if (!visitor.restoring()) visitor.tensor(name, parameter);  // it is told that the checkpoint lacks it
      } else if (now && visitor.restoring()) {
        states.erase(found);
      }
    }
  }
}

}  // namespace tutti::checkpoint
