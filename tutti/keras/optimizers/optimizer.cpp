#include "tutti/keras/optimizers/optimizer.h"

#include <utility>

namespace tutti::keras::optimizers {

Optimizer::Optimizer(std::shared_ptr<OptimizerImpl> impl) : impl_(std::move(impl)) {}

void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Tensor>& variables,
                                std::source_location location) const {
  impl_->apply_gradients(gradients, variables, location);
}

}  // namespace tutti::keras::optimizers
