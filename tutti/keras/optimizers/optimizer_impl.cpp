#include "tutti/keras/optimizers/optimizer_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/compiled_strategy.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/servers/served_updates.h"
#include "tutti/distribute/strategy.h"
#include "tutti/keras/optimizers/common_options_internal.h"
#include "tutti/keras/optimizers/gradient_sums_internal.h"
#include "tutti/keras/variable_notes.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/updates/buffer_updates.h"
#include "tutti/tensor/updates/host_buffers.h"
#include "tutti/tensor/updates/measures.h"
#include "tutti/tensor/updates/slot_buffers.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::optimizers {
namespace {

// Outside of graphs and scopes, in global view.
struct PlainUpdate {
  c10::NoGradGuard no_grad;
  GlobalViewGuard view;
};

void require_global(const std::string& name, const char* function) {
  require_global_view(str(name, '.', function), "it changes the variables of all replicas, call it outside of run");
}

void check(const CommonOptions& options) {
  const auto& [rate, weight_decay, clipnorm, global_clipnorm, clipvalue, use_ema, ema_momentum, frequency, loss_scale,
               accumulation, name] = options;
  const auto require_at_least = [&](const char* field, std::optional<int64_t> value, int64_t least, const char* text) {
    if (value) require(*value >= least, name, field, static_cast<double>(*value), text);
  };
  const auto require_positive = [&](const char* field, std::optional<double> value) {
    if (value) require(*value > 0, name, field, *value, "positive");
  };
  if (clipnorm.has_value() + global_clipnorm.has_value() + clipvalue.has_value() > 1)
    throw Error(ErrorCode::invalid_argument,
                str(name, ": more than one of clipnorm, global_clipnorm and clipvalue is set; set one of them"));
  require_positive("clipnorm", clipnorm);
  require_positive("global_clipnorm", global_clipnorm);
  require_positive("clipvalue", clipvalue);
  require_positive("loss_scale_factor", loss_scale);
  if (weight_decay) require_not_negative(name, "weight_decay", *weight_decay);
  require(ema_momentum >= 0 && ema_momentum <= 1, name, "ema_momentum", ema_momentum, "in [0, 1]");
  require_at_least("ema_overwrite_frequency", frequency, 1, "at least 1");
  require_at_least("gradient_accumulation_steps", accumulation, 2, "at least 2");
}

double checked_rate(const std::string& name, double rate) {
  require(rate >= 0 && std::isfinite(rate), name, "the learning rate", rate, "a finite number, at least 0");
  return rate;
}

// The gradient as a dense tensor of the variable's dtype, layout and mesh, or, where rows are taken, as a sparse one.
Tensor fitted(const std::string& name, Tensor gradient, const Tensor& variable, size_t position, bool takes_rows) {
  if (gradient.sizes() != variable.sizes())
    throw Error(ErrorCode::invalid_argument,
                str(name, ".apply_gradients: gradient ", position, " has shape ", str_list(gradient.sizes()),
                    ", its variable has ", str_list(variable.sizes()), "; they must be equal"));
  if (!sparse_values_of(gradient).empty()) {
    gradient = gather(gradient);
    if (takes_rows && gradient.sparse_dim() == 1) return gradient.to(variable.scalar_type()).coalesce();
    gradient = gradient.to_dense();
  }
  if (gradient.scalar_type() != variable.scalar_type()) gradient = gradient.to(variable.scalar_type());
  return in_layout_of(variable, std::move(gradient));
}

// Where servers make the updates of the strategy that this thread is under; else null.
std::shared_ptr<ServedUpdates> current_served_updates() {
  const auto* strategy = has_strategy() ? dynamic_cast<const ParameterServerStrategy*>(&get_strategy()) : nullptr;
  return strategy ? strategy->served_updates() : nullptr;
}

// The factor that brings a gradient of this norm down to the limit.
double shrink_factor(double norm, double limit) { return norm > limit ? limit / norm : norm == norm ? 1 : norm; }

}  // namespace

struct OptimizerImpl::Scratch {
  std::vector<Update> updates;
  std::vector<BufferUpdate> buffer_updates;
  std::vector<Tensor> copies;
  // Where servers make the updates, which know it by a number.
  std::weak_ptr<ServedUpdates> served = {};
  int served_number = -1;

  void serve(OptimizerImpl& optimizer, const std::shared_ptr<ServedUpdates>& servers, std::source_location location);

  // Of what is listed.
  static void make_update(OptimizerImpl& of, const UpdateStep& step) {
    if (of.accumulate()) {
      of.clip();
      of.update(step);
    }
    of.scratch_->clear();
    if (of.options_.use_ema) of.update_averages();
    ++of.num_calls_;
  }
  // Of a server whose variables have no gradients in this one.
  static void make_update_of_others(OptimizerImpl& of) {
    const PlainUpdate plain_update;
    of.scratch_->clear();
    make_update(of, of.next_step());
  }

  // To whom a worker hands its gradients; null: it updates variables itself.
  std::shared_ptr<ServedUpdates> pushes_to(const std::string& name) const {
    if (auto updates = served.lock()) return updates->pushes() ? updates : nullptr;
    if (const auto updates = current_served_updates(); updates && updates->pushes())
      throw Error(ErrorCode::failed_precondition,
                  str(name,
                      ".apply_gradients: the servers do not know this optimizer; call build(variables) in the "
                      "strategy's build, where every task makes it"));
    return nullptr;
  }

  void clear() {
    updates.clear();
    buffer_updates.clear();
    copies.clear();
  }
};

// What the servers have to know. Every task has the same optimizer, and its state.
void OptimizerImpl::Scratch::serve(OptimizerImpl& optimizer, const std::shared_ptr<ServedUpdates>& servers,
                                   std::source_location location) {
  if (optimizer.states_.empty())
    throw Error(
        ErrorCode::unimplemented,
        str(optimizer.name(), ": an optimizer that is made of others, or has other state, cannot be on servers"));
  ServedOptimizer to_serve{.name = optimizer.name(), .location = location};
  for (const VariableState& state : optimizer.states_) {
    auto& slots = to_serve.slots.emplace_back(state.slots);
    to_serve.variables.push_back(state.variable);
    for (const Tensor& tensor : {state.average, state.gradient_accumulator})
      if (tensor.defined()) slots.push_back(tensor);
  }
  to_serve.needs_whole_variables = !optimizer.is_elementwise() || optimizer.options_.clipnorm.has_value();
  to_serve.needs_all_variables = optimizer.options_.global_clipnorm.has_value();
  to_serve.counts_updates = true;
  to_serve.changes_all_slots = optimizer.options_.use_ema || optimizer.options_.gradient_accumulation_steps;
  to_serve.changes_all_variables = optimizer.options_.use_ema && optimizer.options_.ema_overwrite_frequency;
  const auto alive = [weak = optimizer.weak_from_this()] {
    if (auto self = weak.lock()) return self;
    throw Error(ErrorCode::failed_precondition, "an optimizer that servers use was let go");
  };
  to_serve.is_alive = [weak = optimizer.weak_from_this()] { return !weak.expired(); };
  to_serve.apply = [alive](auto gradients, auto variables, double scale) {
    if (variables.empty()) return make_update_of_others(*alive());
    std::vector<Tensor> values;
    for (const ServedGradient& gradient : gradients) values.push_back(gradient.value);
    alive()->apply(values, variables, scale);
  };
  to_serve.changes_rows_alone = [alive](const ServedGradient&, const Tensor& variable) {
    const auto self = alive();
    const VariableState& state = self->state_of(variable, 0);
    return self->is_elementwise() && self->takes_rows(state) && !state.constraint && !self->options_.use_ema;
  };
  to_serve.numbers = [alive] {
    const auto self = alive();
    std::vector<double> numbers{static_cast<double>(self->num_calls_)};
    if (const auto rate = self->options_.learning_rate.number()) numbers.push_back(*rate);
    return numbers;
  };
  to_serve.set_numbers = [alive](std::span<const double> numbers) {
    const auto self = alive();
    if (numbers.empty() || numbers.size() > 2 || !(numbers[0] >= 0 && numbers[0] < 0x1p53))
      throw Error(ErrorCode::data_loss, str(self->name(), ": numbers came that are not its own"));
    self->num_calls_ = static_cast<int64_t>(numbers[0]);
    if (numbers.size() == 2) self->set_learning_rate(numbers[1]);
  };
  served = servers;
  served_number = servers->add(std::move(to_serve));
}

OptimizerImpl::OptimizerImpl(CommonOptions options, std::vector<double> slots)
    : options_(std::move(options)),
      slots_(std::move(slots)),
      sums_(std::make_unique<GradientSums>()),
      scratch_(std::make_unique<Scratch>()) {
  check(options_);
  if (const auto& rate = options_.learning_rate.number()) checked_rate(name(), *rate);
}

OptimizerImpl::~OptimizerImpl() = default;

int64_t OptimizerImpl::iterations() const { return num_calls_ / options_.gradient_accumulation_steps.value_or(1); }

void OptimizerImpl::set_learning_rate(LearningRate rate) {
  if (const auto& number = rate.number()) checked_rate(name(), *number);
  options_.learning_rate = std::move(rate);
}

Tensor OptimizerImpl::scale_loss(const Tensor& loss) const {
  return options_.loss_scale_factor ? loss * *options_.loss_scale_factor : loss;
}

void OptimizerImpl::exclude_from_weight_decay(std::function<bool(const Tensor&)> excluded) {
  if (!states_.empty())
    throw Error(
        ErrorCode::failed_precondition,
        str(name(), ".exclude_from_weight_decay: the optimizer is built already; call it before the first update"));
  excluded_from_weight_decay_ = std::move(excluded);
}

void OptimizerImpl::apply_gradients(std::span<const Tensor> gradients, std::span<const Tensor> variables,
                                    std::source_location location) {
  if (gradients.size() != variables.size())
    throw Error(ErrorCode::invalid_argument, str(name(), ".apply_gradients: ", gradients.size(), " gradients for ",
                                                 variables.size(), " variables; there must be one for each"));
  const double scale = 1 / options_.loss_scale_factor.value_or(1);
  const auto servers = scratch_->pushes_to(name());
  if (!in_replica_function()) {
    if (servers) return servers->push(scratch_->served_number, gradients, variables, scale);
    return apply_once(gradients, variables, scale);
  }
  GradientShare share{gradients, variables};
  const auto action = [&](Brought<GradientShare> shares) {
    const c10::NoGradGuard no_grad;
    if (servers) {
      servers->push(scratch_->served_number, sums_->take(shares, get_strategy()), variables, scale);
      return sums_->release();
    }
    apply_sums(shares, variables, scale);
  };
  const auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));  // others are met elsewhere
  get_replica_context(location).meet("apply_gradients", share, action, key);
}

// Where a function is recorded, each replay applies its own gradients, with that step's learning rate and count.
void OptimizerImpl::apply_once(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) {
  if (!CallRecorder::current()) return apply(gradients, variables, scale);
  host_step(name().c_str(), {gradients.data(), gradients.size()}, {variables.data(), variables.size()},
            [this, self = weak_from_this().lock(), scale,
             own = std::vector<Tensor>(variables.begin(), variables.end())](at::ArrayRef<Tensor> inputs) {
              const c10::NoGradGuard no_grad;
              apply({inputs.data(), inputs.size()}, own, scale);
            });
}

void OptimizerImpl::apply_sums(Brought<GradientShare> shares, std::span<const Tensor> variables, double scale) {
  if (!CallRecorder::current()) {
    apply(sums_->take(shares, get_strategy()), variables, scale);
    return sums_->release();
  }
  if (is_compiled(get_strategy())) {
    apply_compiled(sums_->take(shares, get_strategy()), variables, scale);
    return sums_->release();
  }
  std::vector<Tensor> gradients;  // of all replicas
  std::vector<size_t> begins;
  for (size_t replica = 0; replica < shares.size(); ++replica) {
    begins.push_back(gradients.size());
    gradients.insert(gradients.end(), shares[replica].gradients.begin(), shares[replica].gradients.end());
  }
  begins.push_back(gradients.size());
  host_step(name().c_str(), gradients, {variables.data(), variables.size()},
            [this, self = weak_from_this().lock(), scale, begins = std::move(begins), &strategy = get_strategy(),
             own = std::vector<Tensor>(variables.begin(), variables.end())](at::ArrayRef<Tensor> inputs) {
              const c10::NoGradGuard no_grad;
              std::vector<GradientShare> now;
              std::vector<void*> brought;
              now.reserve(begins.size());
              for (size_t replica = 0; replica + 1 < begins.size(); ++replica) {
                const size_t count = begins[replica + 1] - begins[replica];
                now.push_back({{inputs.data() + begins[replica], count}, {own.data(), count}});
                brought.push_back(&now.back());
              }
              apply(sums_->take(Brought<GradientShare>(brought), strategy), own, scale);
              sums_->release();
            });
}

void OptimizerImpl::apply(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) {
  const PlainUpdate plain_update;
  if (states_.empty()) make_states(variables);
  const UpdateStep step = next_step();
  list_updates(gradients, variables, scale);
  Scratch::make_update(*this, step);
  constrain(variables);
}

UpdateStep OptimizerImpl::next_step() const {
  return {.learning_rate = checked_rate(name(), learning_rate()), .number = iterations() + 1};
}

void OptimizerImpl::constrain(std::span<const Tensor> variables) {
  for (size_t i = 0; i < variables.size(); ++i)
    if (const VariableState& state = state_of(variables[i], i); state.constraint)
      state.variable.copy_((*state.constraint)(state.variable));
}

void OptimizerImpl::list_updates(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) {
  scratch_->clear();
  bool in_order = true;  // then none is listed twice
  for (size_t i = 0; i < gradients.size(); ++i) {
    VariableState& state = state_of(variables[i], i);
    in_order = in_order && i < states_.size() && &state == &states_[i];
    if (gradients[i].defined())
      scratch_->updates.push_back({&state, fitted(name(), gradients[i], state.variable, i, takes_rows(state)), scale});
    else if (!std::exchange(warned_of_missing_gradients_, true))
      warn(str(name(), ": some variables have no gradient and stay as they are"));
  }
  if (scratch_->updates.empty())
    throw Error(ErrorCode::invalid_argument,
                str(name(), ".apply_gradients: no variable has a gradient; does the loss depend on them?"));
  if (!in_order) require_distinct(variables);
}

// Whether a sparse gradient's rows alone need to be looked at.
bool OptimizerImpl::takes_rows(const VariableState& state) const {
  const bool looks_at_all = options_.clipnorm || options_.global_clipnorm || options_.gradient_accumulation_steps ||
                            (options_.weight_decay && state.decays);
  return keeps_still() && !looks_at_all;
}

// A pass over the buffers may not meet one twice.
void OptimizerImpl::require_distinct(std::span<const Tensor> variables) const {
  for (size_t i = 0; i < variables.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (variables[i].is_same(variables[k]))
        throw Error(ErrorCode::invalid_argument, str(name(), ": variables ", k, " and ", i,
                                                     " are the same; list each once, with the sum of its gradients"));
}

// Whether there is an update to make. With accumulation that is each time when enough gradients came together.
bool OptimizerImpl::accumulate() {
  if (!options_.gradient_accumulation_steps) return true;
  const int64_t num_steps = *options_.gradient_accumulation_steps;
  for (Update& update : scratch_->updates) {
    update.state->gradient_accumulator.add_(update.gradient, update.scale);
    update.gradient = update.state->gradient_accumulator;
    update.scale = 1 / static_cast<double>(num_steps);
  }
  return (num_calls_ + 1) % num_steps == 0;
}

void OptimizerImpl::clip() {
  const auto square = [](const Update& update) {
    return update.scale * update.scale * sum_of_squares(update.gradient);
  };
  if (options_.clipnorm)
    for (Update& update : scratch_->updates)
      update.scale *= shrink_factor(std::sqrt(square(update)), *options_.clipnorm);
  if (!options_.global_clipnorm) return;
  double sum = 0;
  for (const Update& update : scratch_->updates) sum += square(update);
  const double norm = std::sqrt(sum);
  // As in Keras, one infinite element makes all of them NaN.
  const double factor =
      std::isfinite(norm) ? shrink_factor(norm, *options_.global_clipnorm) : std::numeric_limits<double>::quiet_NaN();
  for (Update& update : scratch_->updates) update.scale *= factor;
}

void OptimizerImpl::update(const UpdateStep& step) {
  auto& updates = scratch_->updates;
  auto& buffer_updates = scratch_->buffer_updates;
  auto& copies = scratch_->copies;
  const double limit = options_.clipvalue.value_or(std::numeric_limits<double>::infinity());
  const double decayed = 1 - options_.weight_decay.value_or(0) * step.learning_rate;
  for (const auto& [state, given, scale] : updates) {
    const UpdateScaling scaling{
        .gradient_scale = scale, .gradient_limit = limit, .variable_scale = state->decays ? decayed : 1};
    const auto& add = given.is_sparse() ? add_row_updates : add_buffer_updates;
    if (is_elementwise() && add(state->variable, given, state->slots, scaling, buffer_updates, copies)) continue;
    const Tensor gradient = given.is_sparse() ? in_layout_of(state->variable, given.to_dense()) : given;
    Tensor seen = scale == 1 ? gradient : gradient * scale;
    if (options_.clipvalue) seen = seen.clamp(-limit, limit);
    if (scaling.variable_scale != 1) state->variable.mul_(scaling.variable_scale);
    update_variable(seen, state->variable, state->slots, step);
  }
  if (!buffer_updates.empty()) update_buffers(buffer_updates, step);
  for (const auto& [state, gradient, scale] : updates) finish_buffer_updates(state->variable);
  if (options_.gradient_accumulation_steps)
    for (VariableState& state : states_) state.gradient_accumulator.zero_();
}

void OptimizerImpl::update_averages() {
  const int64_t iteration = iterations();
  const double take = iteration == 0 ? 1 : 1 - options_.ema_momentum;
  const bool overwrites = options_.ema_overwrite_frequency && (iteration + 1) % *options_.ema_overwrite_frequency == 0;
  for (VariableState& state : states_) {
    state.average.lerp_(state.variable, take);
    if (overwrites) state.variable.copy_(state.average);
  }
}

void OptimizerImpl::finalize_variable_values(std::span<const Tensor> variables) {
  if (!options_.use_ema || states_.empty()) return;
  require_global(name(), "finalize_variable_values");
  const PlainUpdate plain_update;
  for (size_t i = 0; i < variables.size(); ++i) {
    const VariableState& state = state_of(variables[i], i);
    state.variable.copy_(state.average);
  }
}

namespace {

void require_averages(const std::string& name, const char* function, bool use_ema) {
  if (!use_ema)
    throw Error(ErrorCode::failed_precondition,
                str(name, '.', function, ": the optimizer keeps no averages; make it with use_ema = true"));
  require_global(name, function);
}

}  // namespace

void OptimizerImpl::swap_averages() {
  require_averages(name(), "swap_averages", options_.use_ema);
  const PlainUpdate plain_update;
  for (VariableState& state : states_) {
    const Tensor average = state.average.clone();
    state.average.copy_(state.variable);
    state.variable.copy_(average);
  }
}

void OptimizerImpl::reset_averages() {
  require_averages(name(), "reset_averages", options_.use_ema);
  const PlainUpdate plain_update;
  for (VariableState& state : states_) state.average.copy_(state.variable);
}

void OptimizerImpl::build(std::span<const Tensor> variables, std::source_location location) {
  const auto build_once = [&] {
    const auto servers = current_served_updates();
    const PlainUpdate plain_update;
    if (states_.empty())
      make_states(variables);
    else
      for (size_t i = 0; i < variables.size(); ++i) state_of(variables[i], i);
    if (servers && scratch_->served.expired()) scratch_->serve(*this, servers, location);
  };
  if (!in_replica_function()) return build_once();
  const auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));
  get_replica_context(location).meet("Optimizer::build", build_once, key);
}

void OptimizerImpl::make_states(std::span<const Tensor> variables) {
  require_distinct(variables);
  std::vector<double> initial_values = slots_;
  if (options_.use_ema) initial_values.push_back(0);
  if (options_.gradient_accumulation_steps) initial_values.push_back(0);
  const auto servers = current_served_updates();  // have the values
  const auto where = servers && servers->pushes() ? SlotValues::elsewhere : SlotValues::here;
  auto buffers = make_slot_buffers(variables, initial_values, where);
  std::vector<VariableState> states;
  for (size_t i = 0; i < variables.size(); ++i) {
    VariableState state{.variable = variables[i], .slots = make_slots(variables[i])};
    auto next = buffers[i].begin();
    for (size_t slot = 0; slot < slots_.size(); ++slot) state.slots.push_back(*next++);
    if (options_.use_ema) state.average = *next++;
    if (options_.gradient_accumulation_steps) state.gradient_accumulator = *next++;
    if (const auto* const constraint = constraint_of(variables[i])) state.constraint = *constraint;
    state.decays = decays(variables[i]);
    states.push_back(std::move(state));
  }
  states_ = std::move(states);
}

namespace {

// The state of one variable.
class StateOfOne : public Savable {
 public:
  StateOfOne(std::span<const Tensor> slots, const Tensor& average, const Tensor& accumulator)
      : slots_(slots), average_(average), accumulator_(accumulator) {}
  void visit_state(StateVisitor& visitor) override {
    for (size_t slot = 0; slot < slots_.size(); ++slot) visitor.tensor(str("slot_", slot), slots_[slot]);
    if (average_.defined()) visitor.tensor("average", average_);
    if (accumulator_.defined()) visitor.tensor("gradient_accumulator", accumulator_);
  }

 private:
  std::span<const Tensor> slots_;
  const Tensor& average_;
  const Tensor& accumulator_;
};

}  // namespace

void OptimizerImpl::visit_state(StateVisitor& visitor) {
  visitor.number("iterations", num_calls_);
  if (auto rate = options_.learning_rate.number()) {
    visitor.number("learning_rate", *rate);
    if (visitor.restoring()) set_learning_rate(*rate);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    StateOfOne state(states_[i].slots, states_[i].average, states_[i].gradient_accumulator);
    visitor.object(std::to_string(i), state);
  }
  if (visitor.has(std::to_string(states_.size()), false))
    throw Error(ErrorCode::failed_precondition,
                str(name(), ": the state of more than the ", states_.size(),
                    " variables that it knows was saved; call build(variables) before restoring"));
}

std::vector<Tensor> OptimizerImpl::variables() const {
  std::vector<Tensor> variables;
  for (const VariableState& state : states_) variables.push_back(state.variable);
  return variables;
}

std::vector<Tensor> OptimizerImpl::state() const {
  std::vector<Tensor> tensors;
  for (const VariableState& state : states_) {
    tensors.insert(tensors.end(), state.slots.begin(), state.slots.end());
    for (const Tensor& tensor : {state.average, state.gradient_accumulator})
      if (tensor.defined()) tensors.push_back(tensor);
  }
  return tensors;
}

OptimizerImpl::VariableState& OptimizerImpl::state_of(const Tensor& variable, size_t expected_position) {
  const auto is_variable = [&](const VariableState& state) { return state.variable.is_same(variable); };
  if (expected_position < states_.size() && is_variable(states_[expected_position])) return states_[expected_position];
  if (const auto found = std::ranges::find_if(states_, is_variable); found != states_.end()) return *found;
  throw Error(ErrorCode::invalid_argument,
              str(name(), ": variable ", expected_position, " of shape ", str_list(variable.sizes()),
                  " is none of the ", states_.size(),
                  " that it was built with. Weights that were frozen until now need a new optimizer: compile with one. "
                  "In a loop of your own, call build(variables) with all of them before the first update"));
}

}  // namespace tutti::keras::optimizers
