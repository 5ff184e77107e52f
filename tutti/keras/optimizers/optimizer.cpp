#include "tutti/keras/optimizers/optimizer.h"

#include <algorithm>
#include <utility>

#include "tutti/keras/variable_notes.h"

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

void Optimizer::exclude_from_weight_decay_by_name(const std::vector<std::string>& parts) const {
  impl_->exclude_from_weight_decay([parts](const Tensor& variable) {
    const std::string path = path_of(variable);
    return std::ranges::any_of(parts, [&](const std::string& part) { return path.find(part) != std::string::npos; });
  });
}

}  // namespace tutti::keras::optimizers
