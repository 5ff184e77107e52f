#include "tutti/keras/optimizers/optimizer.h"

#include <algorithm>
#include <utility>

namespace tutti::keras::optimizers {

Optimizer::Optimizer(std::shared_ptr<OptimizerImpl> impl) : impl_(std::move(impl)) {}

void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Tensor>& variables,
                                std::source_location location) const {
  impl_->apply_gradients(gradients, variables, location);
}

void Optimizer::exclude_from_weight_decay(const std::vector<Tensor>& variables) const {
  impl_->exclude_from_weight_decay([variables](const Tensor& variable) {
    return std::ranges::any_of(variables, [&](const Tensor& excluded) { return excluded.is_same(variable); });
  });
}

}  // namespace tutti::keras::optimizers
