#include "tutti/keras/optimizers/schedule_free_adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "tutti/keras/optimizers/common_options_internal.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: z, which begins at the variable, and the second moment.
class ScheduleFreeAdamWImpl final : public OptimizerImpl {
 public:
  explicit ScheduleFreeAdamWImpl(const ScheduleFreeAdamWOptions& options)
      : OptimizerImpl(common_options(options), /*slots=*/{}), options_(options) {
    require(options.beta_1 > 0 && options.beta_1 <= 1, options.name, "beta_1", options.beta_1, "in (0, 1]");
    require_decay(options.name, "beta_2", options.beta_2);
    require_not_negative(options.name, "epsilon", options.epsilon);
    require_not_negative(options.name, "warmup_steps", static_cast<double>(options.warmup_steps));
  }

  // Of every variable w: w = take * w + (1 - take) * z.
  void mix(double take) {
    const c10::NoGradGuard no_grad;
    const GlobalViewGuard global_view;
    for_each_variable(
        [&](const Tensor& variable, std::span<const Tensor> slots) { variable.mul_(take).add_(slots[0], 1 - take); });
  }

  double beta_1() const { return options_.beta_1; }

 private:
  std::vector<Tensor> make_slots(const Tensor& variable) const override {
    return {variable.detach().clone(), at::zeros_like(variable)};
  }

  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    const auto t = static_cast<double>(step.number);
    const double warm = options_.warmup_steps > 0 ? std::min(t / static_cast<double>(options_.warmup_steps), 1.0) : 1;
    const Tensor average = (variable - slots[0] * (1 - options_.beta_1)) / options_.beta_1;
    slots[1].add_(gradient.square() - slots[1], 1 - options_.beta_2);
    const Tensor root = (slots[1] / (1 - std::pow(options_.beta_2, t))).sqrt() + options_.epsilon;
    slots[0].sub_(gradient / root, step.learning_rate * warm);
    const Tensor next = average + (slots[0] - average) / t;
    variable.copy_(slots[0] * (1 - options_.beta_1) + next * options_.beta_1);
  }

  ScheduleFreeAdamWOptions options_;
};

ScheduleFreeAdamWImpl& schedule_free(const Optimizer& optimizer) {
  return static_cast<ScheduleFreeAdamWImpl&>(*optimizer.impl());
}

}  // namespace

ScheduleFreeAdamW::ScheduleFreeAdamW(const ScheduleFreeAdamWOptions& options)
    : Optimizer(std::make_shared<ScheduleFreeAdamWImpl>(options)) {
  impl()->tell_made_from({"ScheduleFreeAdamW", options});
}

void ScheduleFreeAdamW::swap_to_eval() const { schedule_free(*this).mix(1 / schedule_free(*this).beta_1()); }

void ScheduleFreeAdamW::swap_to_train() const { schedule_free(*this).mix(schedule_free(*this).beta_1()); }

}  // namespace tutti::keras::optimizers
