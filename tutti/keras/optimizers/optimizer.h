#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/keras/optimizers/optimizer_impl.h"

namespace tutti::keras::optimizers {

// A shared handle to an optimizer: copies are the same optimizer with the same state. TF: tf.keras.optimizers.Optimizer
class Optimizer {
 public:
  explicit Optimizer(std::shared_ptr<OptimizerImpl> impl);

  // Changes each variable by its gradient, in place. An undefined gradient leaves its variable as it is, with a
  // warning. In a replica's function all replicas wait for each other, and the sum of their gradients is applied once;
  // clipping sees that sum. Ranks: all.
  // Throws: invalid_argument unless there is one gradient for each variable, one of them defined; failed_precondition
  // if the replicas' collectives do not match.
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Tensor>& variables,
                       std::source_location location = std::source_location::current()) const;

  const std::string& name() const { return impl_->name(); }
  int64_t iterations() const { return impl_->iterations(); }
  double learning_rate() const { return impl_->learning_rate(); }  // of the next update
  void set_learning_rate(LearningRate rate) const { impl_->set_learning_rate(std::move(rate)); }
  bool has_schedule() const { return impl_->has_schedule(); }  // as its learning rate

  // Makes the state for these variables; without it, the first update does.
  void build(const std::vector<Tensor>& variables) const { impl_->build(variables); }

  const std::shared_ptr<OptimizerImpl>& impl() const { return impl_; }
  std::shared_ptr<Savable> savable() const { return impl_; }

 private:
  std::shared_ptr<OptimizerImpl> impl_;
};

}  // namespace tutti::keras::optimizers
