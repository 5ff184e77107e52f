#include "tutti/keras/optimizers/adafactor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "tutti/keras/optimizers/common_options_internal.h"

namespace tutti::keras::optimizers {
namespace {

Tensor root_mean_square(const Tensor& x) { return x.square().mean().sqrt(); }

// Slots: the means over rows and columns, or the second moment of a variable with less than two axes.
class AdafactorImpl final : public OptimizerImpl {
 public:
  explicit AdafactorImpl(const AdafactorOptions& options)
      : OptimizerImpl(common_options(options), /*slots=*/{}), options_(options) {
    require(options.clip_threshold > 0, options.name, "clip_threshold", options.clip_threshold, "positive");
  }

 private:
  std::vector<Tensor> make_slots(const Tensor& variable) const override {
    if (variable.dim() < 2) return {at::zeros_like(variable)};
    return {at::zeros_like(variable.sum(-1)), at::zeros_like(variable.sum(-2))};
  }

  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    if (variable.numel() == 0) return;  // its means would be NaN
    const auto t = static_cast<double>(step.number);
    const double keep = 1 - std::pow(t, options_.beta_2_decay);
    const Tensor squares = gradient.square() + options_.epsilon_1;
    Tensor velocity;
    if (variable.dim() < 2) {
      velocity = slots[0].mul_(keep).add_(squares, 1 - keep);
    } else {
      const Tensor& rows = slots[0].mul_(keep).add_(squares.mean(-1), 1 - keep);
      const Tensor& columns = slots[1].mul_(keep).add_(squares.mean(-2), 1 - keep);
      velocity = (rows / rows.mean(-1, /*keepdim=*/true)).unsqueeze(-1) * columns.unsqueeze(-2);
    }
    const Tensor change = gradient / velocity.sqrt();
    const Tensor size = root_mean_square(variable).clamp_min(options_.epsilon_2) *
                        std::min(step.learning_rate, 1 / std::sqrt(t)) /
                        (root_mean_square(change) / options_.clip_threshold).clamp_min(1);
    variable.sub_(change * size);
  }

  AdafactorOptions options_;
};

}  // namespace

Adafactor::Adafactor(const AdafactorOptions& options) : Optimizer(std::make_shared<AdafactorImpl>(options)) {
  impl()->tell_made_from({"Adafactor", options});
}

}  // namespace tutti::keras::optimizers
