#include "tutti/keras/optimizers/adam.h"

#include <ATen/ops/maximum.h>

#include <cmath>

#include "tutti/keras/optimizers/common_options_internal.h"

namespace tutti::keras::optimizers {
namespace {

class AdamImpl : public OptimizerImpl {
 public:
  explicit AdamImpl(const AdamOptions& options)
      : OptimizerImpl(common_options(options), options.amsgrad ? 3 : 2), options_(options) {}

 private:
  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    const Tensor& momentum = slots[0];
    const Tensor& velocity = slots[1];
    momentum.lerp_(gradient, 1 - options_.beta_1);
    velocity.mul_(options_.beta_2).addcmul_(gradient, gradient, 1 - options_.beta_2);
    if (options_.amsgrad) slots[2].copy_(at::maximum(slots[2], velocity));

    const auto t = static_cast<double>(step.number);
    const double alpha =
        step.learning_rate * std::sqrt(1 - std::pow(options_.beta_2, t)) / (1 - std::pow(options_.beta_1, t));
    const Tensor denominator = (options_.amsgrad ? slots[2] : velocity).sqrt().add_(options_.epsilon);
    variable.addcdiv_(momentum, denominator, -alpha);
  }

  AdamOptions options_;
};

}  // namespace

Adam::Adam(const AdamOptions& options) : Optimizer(std::make_shared<AdamImpl>(options)) {}

}  // namespace tutti::keras::optimizers
