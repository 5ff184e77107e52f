#include "tutti/keras/optimizers/lion.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

struct LionRule {
  static constexpr size_t kNumSlots = 1;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate), beta_1 = Number(beta_1), beta_2 = Number(beta_2)](
               auto& variable, const auto& gradient, auto& slots) {
      variable -= numbers::sign(slots[0] * beta_1 + gradient * (1 - beta_1)) * rate;
      slots[0] *= beta_2;
      slots[0] += gradient * (1 - beta_2);
    };
  }

  double beta_1, beta_2;
};

std::shared_ptr<OptimizerImpl> make_lion(const LionOptions& options) {
  require(options.beta_1 > 0 && options.beta_1 <= 1, options.name, "beta_1", options.beta_1, "in (0, 1]");
  require(options.beta_2 >= 0 && options.beta_2 <= 1, options.name, "beta_2", options.beta_2, "in [0, 1]");
  return make_elementwise(options, LionRule{options.beta_1, options.beta_2});
}

}  // namespace

Lion::Lion(const LionOptions& options) : Optimizer(make_lion(options)) { impl()->tell_made_from({"Lion", options}); }

}  // namespace tutti::keras::optimizers
