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
  // warning. Throws: invalid_argument unless there is one gradient for each variable, one of them defined.
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Tensor>& variables) const;

  const std::string& name() const { return impl_->name(); }
  int64_t iterations() const { return impl_->iterations(); }
  double learning_rate() const { return impl_->learning_rate(); }  // of the next update
  void set_learning_rate(LearningRate rate) const { impl_->set_learning_rate(std::move(rate)); }

  const std::shared_ptr<OptimizerImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<OptimizerImpl> impl_;
};

}  // namespace tutti::keras::optimizers
