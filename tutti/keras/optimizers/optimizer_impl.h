#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/collectives/brought.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/constraints.h"
#include "tutti/keras/made_from.h"
#include "tutti/keras/optimizers/learning_rate.h"
#include "tutti/tensor/savable.h"

namespace tutti {
struct BufferUpdate;
}

namespace tutti::keras::optimizers {

class GradientSums;
struct GradientShare;

// What all optimizers have in common; the fields that their options repeat. At most one of clipnorm, global_clipnorm
// and clipvalue; all see the sum of the replicas' gradients.
struct CommonOptions {
  LearningRate learning_rate;                          // at least 0
  std::optional<double> weight_decay;                  // each update first takes this times the learning rate off
  std::optional<double> clipnorm;                      // largest norm of each gradient
  std::optional<double> global_clipnorm;               // largest norm of all gradients together
  std::optional<double> clipvalue;                     // largest absolute value of an element
  bool use_ema;                                        // keep moving averages of the variables
  double ema_momentum;                                 // average = momentum * average + (1 - momentum) * variable
  std::optional<int64_t> ema_overwrite_frequency;      // updates after which variables become their averages
  std::optional<double> loss_scale_factor;             // of scale_loss; gradients are divided by it
  std::optional<int64_t> gradient_accumulation_steps;  // calls, 2 or more, whose mean gradient makes one update
  std::string name;
};

// One update, as a rule sees it.
struct UpdateStep {
  double learning_rate;
  int64_t number;  // 1 for the first update
};

// What stands behind an Optimizer; derive from it to write one. A rule works with in-place operations on whole
// variables, so that plain tensors and mesh tensors are updated alike.
class OptimizerImpl : public Savable, public std::enable_shared_from_this<OptimizerImpl> {
 public:
  // To each variable belong tensors of its shape, one for each initial value in `slots`.
  // Throws: invalid_argument for common options out of range or given together.
  OptimizerImpl(CommonOptions options, std::vector<double> slots);
  ~OptimizerImpl() override;
  OptimizerImpl(const OptimizerImpl&) = delete;
  OptimizerImpl& operator=(const OptimizerImpl&) = delete;

  // In a replica's function all replicas meet, and the sum of their gradients is applied once.
  void apply_gradients(std::span<const Tensor> gradients, std::span<const Tensor> variables,
                       std::source_location location);
  // The same in global view, of gradients that are final, each times `scale`.
  virtual void apply(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale);
  // Makes the state of these variables, unless they have it. In a replica's function all replicas meet.
  void build(std::span<const Tensor> variables, std::source_location location);

  const std::string& name() const { return options_.name; }
  const MadeFrom& made_from() const { return made_from_; }
  void tell_made_from(MadeFrom made_from) { made_from_ = std::move(made_from); }
  const LearningRate& rate() const { return options_.learning_rate; }
  virtual int64_t iterations() const;
  virtual double learning_rate() const { return options_.learning_rate(num_calls_); }
  virtual void set_learning_rate(LearningRate rate);
  virtual bool has_schedule() const { return !options_.learning_rate.number(); }
  virtual Tensor scale_loss(const Tensor& loss) const;
  virtual bool scales_loss() const { return options_.loss_scale_factor.has_value(); }
  virtual void exclude_from_weight_decay(std::function<bool(const Tensor&)> excluded);

  // With use_ema; see Optimizer.
  virtual void finalize_variable_values(std::span<const Tensor> variables);
  virtual void swap_averages();
  virtual void reset_averages();

  // The number of calls of apply_gradients, the learning rate unless it is a schedule, and the state by the variables'
  // positions. Throws: failed_precondition where the state of variables was saved that this optimizer does not know.
  void visit_state(StateVisitor& visitor) override;

  // Those that it was built with, in their order; of one that is made of others, none.
  std::vector<Tensor> variables() const;
  // The state tensors of all variables seen so far, variable by variable.
  virtual std::vector<Tensor> state() const;

 protected:
  virtual void make_states(std::span<const Tensor> variables);
  // State tensors of a variable whose shapes are not the variable's. They come before those of `slots`.
  virtual std::vector<Tensor> make_slots(const Tensor&) const { return {}; }

  // Whether weight decay is for this variable.
  bool decays(const Tensor& variable) const {
    return !excluded_from_weight_decay_ || !excluded_from_weight_decay_(variable);
  }
  // Calls visit(variable, slots) for each variable that has state; in global view.
  void for_each_variable(
      const std::function<void(const Tensor& variable, std::span<const Tensor> slots)>& visit) const {
    for (const VariableState& state : states_) visit(state.variable, state.slots);
  }

  // The optimizer's rule: changes `variable` and its `slots` in place.
  virtual void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                               const UpdateStep& step) const = 0;

  // For ElementwiseImpl: the same rule in one pass over buffers, and, where a function is compiled, by operations whose
  // numbers are elements of a tensor (StepNumbers).
  virtual bool is_elementwise() const { return false; }
  // Whether it leaves an element and its slots as they are where the gradient is zero.
  virtual bool keeps_still() const { return false; }
  virtual void update_buffers(std::span<const BufferUpdate>, const UpdateStep&) const {}
  struct CompiledUpdate {
    Tensor gradient, variable;
    std::span<const Tensor> slots;
  };
  virtual void make_numbers(const UpdateStep&) const {}
  virtual void update_compiled(std::span<const CompiledUpdate>, const UpdateStep&) const {}

 private:
  struct VariableState {
    Tensor variable;
    std::vector<Tensor> slots;
    Tensor average = {};               // with use_ema
    Tensor gradient_accumulator = {};  // with gradient_accumulation_steps
    bool decays = true;
    std::optional<constraints::Constraint> constraint = {};  // that the variable carries
  };
  struct Update {
    VariableState* state;
    Tensor gradient;
    double scale = 1;
  };
  struct Scratch;  // lists that keep their memory from step to step

  void apply_once(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale);
  void apply_sums(Brought<GradientShare> shares, std::span<const Tensor> variables, double scale);
  void apply_compiled(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale);
  void require_compilable() const;
  UpdateStep next_step() const;
  VariableState& state_of(const Tensor& variable, size_t expected_position);
  void list_updates(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale);
  void require_distinct(std::span<const Tensor> variables) const;
  bool takes_rows(const VariableState& state) const;
  bool accumulate();
  void clip();
  void update(const UpdateStep& step);
  void update_averages();
  void constrain(std::span<const Tensor> variables);

  CommonOptions options_;
  MadeFrom made_from_;
  std::vector<double> slots_;
  std::function<bool(const Tensor&)> excluded_from_weight_decay_;
  int64_t num_calls_ = 0;
  std::vector<VariableState> states_;
  bool warned_of_missing_gradients_ = false;
  std::unique_ptr<GradientSums> sums_;
  std::unique_ptr<Scratch> scratch_;
  Tensor step_numbers_;  // of compiled functions
};

}  // namespace tutti::keras::optimizers
