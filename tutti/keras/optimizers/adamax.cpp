#include "tutti/keras/optimizers/adamax.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: first moment, decaying maximum of the gradient's magnitude.
struct AdamaxRule {
  static constexpr size_t kNumSlots = 2;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    const double rate = step.learning_rate / (1 - std::pow(beta_1, static_cast<double>(step.number)));
    return [rate = Number(rate), take = Number(1 - beta_1), beta_2 = Number(beta_2), epsilon = Number(epsilon)](
               auto& variable, const auto& gradient, auto& slots) {
      slots[0] += (gradient - slots[0]) * take;
      numbers::assign(slots[1], numbers::larger(slots[1] * beta_2, numbers::magnitude(gradient)));
      variable -= slots[0] * rate / (slots[1] + epsilon);
    };
  }

  double beta_1, beta_2, epsilon;
};

std::shared_ptr<OptimizerImpl> make_adamax(const AdamaxOptions& options) {
  require_decay(options.name, "beta_1", options.beta_1);
  require_decay(options.name, "beta_2", options.beta_2);
  require_not_negative(options.name, "epsilon", options.epsilon);
  return make_elementwise(options, AdamaxRule{options.beta_1, options.beta_2, options.epsilon});
}

}  // namespace

Adamax::Adamax(const AdamaxOptions& options) : Optimizer(make_adamax(options)) {
  impl()->tell_made_from({"Adamax", options});
}

}  // namespace tutti::keras::optimizers
