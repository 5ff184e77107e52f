#include "tutti/keras/optimizers/adam.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: first moment, second moment, with amsgrad the largest second moment so far.
template <bool kAmsgrad>
struct AdamRule {
  static constexpr size_t kNumSlots = 2 + kAmsgrad;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    const auto t = static_cast<double>(step.number);
    const double alpha = step.learning_rate * std::sqrt(1 - std::pow(beta_2, t)) / (1 - std::pow(beta_1, t));
    return [alpha = Number(alpha), take_1 = Number(1 - beta_1), take_2 = Number(1 - beta_2), epsilon = Number(epsilon)](
               auto& variable, const auto& gradient, auto& slots) {
      slots[0] += (gradient - slots[0]) * take_1;
      slots[1] += (gradient * gradient - slots[1]) * take_2;
      if constexpr (kAmsgrad) numbers::assign(slots[2], numbers::larger(slots[2], slots[1]));
      variable -= slots[0] * alpha / (numbers::square_root(slots[1 + kAmsgrad]) + epsilon);
    };
  }

  double beta_1, beta_2, epsilon;
};

std::shared_ptr<OptimizerImpl> make_adam(const AdamOptions& options) {
  require_decay(options.name, "beta_1", options.beta_1);
  require_decay(options.name, "beta_2", options.beta_2);
  require_not_negative(options.name, "epsilon", options.epsilon);
  const auto make = [&](const auto& rule) { return make_elementwise(options, rule); };
  if (options.amsgrad) return make(AdamRule<true>{options.beta_1, options.beta_2, options.epsilon});
  return make(AdamRule<false>{options.beta_1, options.beta_2, options.epsilon});
}

}  // namespace

Adam::Adam(const AdamOptions& options) : Optimizer(make_adam(options)) { impl()->tell_made_from({"Adam", options}); }

}  // namespace tutti::keras::optimizers
