#include "tutti/keras/optimizers/lamb.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "tutti/keras/optimizers/common_options_internal.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: first moment, second moment.
class LambImpl final : public OptimizerImpl {
 public:
  explicit LambImpl(const LambOptions& options)
      : OptimizerImpl(common_options(options), /*slots=*/{0, 0}), options_(options) {
    require_decay(options.name, "beta_1", options.beta_1);
    require_decay(options.name, "beta_2", options.beta_2);
    require_not_negative(options.name, "epsilon", options.epsilon);
  }

 private:
  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    const auto t = static_cast<double>(step.number);
    slots[0].add_(gradient - slots[0], 1 - options_.beta_1);
    slots[1].add_(gradient.square() - slots[1], 1 - options_.beta_2);
    const Tensor root = (slots[1] / (1 - std::pow(options_.beta_2, t))).sqrt() + options_.epsilon;
    const Tensor change = slots[0] / (1 - std::pow(options_.beta_1, t)) / root;
    const Tensor length = variable.square().sum().sqrt(), step_length = change.square().sum().sqrt();
    const Tensor ratio =
        at::where((length > 0).logical_and(step_length > 0), length / step_length, at::ones_like(length));
    variable.sub_(change * (ratio * step.learning_rate));
  }

  LambOptions options_;
};

}  // namespace

Lamb::Lamb(const LambOptions& options) : Optimizer(std::make_shared<LambImpl>(options)) {
  impl()->tell_made_from({"Lamb", options});
}

}  // namespace tutti::keras::optimizers
