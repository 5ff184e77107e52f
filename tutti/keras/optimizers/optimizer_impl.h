#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/optimizers/learning_rate.h"
#include "tutti/tensor/savable.h"

namespace tutti::keras::optimizers {

// What all optimizers have in common; the fields that their options repeat.
struct CommonOptions {
  LearningRate learning_rate;
  std::optional<double> weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> global_clipnorm;
  std::optional<double> clipvalue;
  std::string name;
};

// One update, as a rule sees it.
struct UpdateStep {
  double learning_rate;
  int64_t number;  // 1 for the first update
};

// What stands behind an Optimizer; derive from it to write one. Works with in-place operations on whole variables, so
// that plain tensors and mesh tensors are updated alike.
class OptimizerImpl : public Savable {
 public:
  // `num_slots` state tensors of the variable's shape, zero at first, belong to each variable.
  OptimizerImpl(CommonOptions options, size_t num_slots);
  OptimizerImpl(const OptimizerImpl&) = delete;
  OptimizerImpl& operator=(const OptimizerImpl&) = delete;

  // In a replica's function all replicas meet, and the sum of their gradients is applied once.
  void apply_gradients(std::span<const Tensor> gradients, std::span<const Tensor> variables,
                       std::source_location location);

  const std::string& name() const { return options_.name; }
  int64_t iterations() const { return iterations_; }
  double learning_rate() const { return options_.learning_rate(iterations_); }
  void set_learning_rate(LearningRate rate) { options_.learning_rate = std::move(rate); }
  bool has_schedule() const { return !options_.learning_rate.number(); }

  // Makes the state of these variables, unless they have it.
  void build(std::span<const Tensor> variables);

  // The number of updates, the learning rate unless it is a schedule, and the state by the variables' positions.
  // Throws: failed_precondition where the state of variables was saved that this optimizer does not know.
  void visit_state(StateVisitor& visitor) override;

  // The state tensors of all variables seen so far, variable by variable.
  std::vector<Tensor> state() const;

 protected:
  // One update with gradients that are final: whoever shares them has summed them.
  void update(std::span<const Tensor> gradients, std::span<const Tensor> variables);

  // The optimizer's rule: changes `variable` and its `slots` in place.
  virtual void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                               const UpdateStep& step) const = 0;

 private:
  struct VariableState {
    Tensor variable;
    std::vector<Tensor> slots;
  };

  const VariableState& state_of(const Tensor& variable, size_t expected_position);
  void clip(std::vector<Tensor>& gradients) const;

  CommonOptions options_;
  size_t num_slots_;
  int64_t iterations_ = 0;
  std::vector<VariableState> states_;
  bool warned_of_missing_gradients_ = false;
};

}  // namespace tutti::keras::optimizers
