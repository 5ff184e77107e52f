#include "tutti/keras/optimizers/adadelta.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: mean squares of the gradient, and of the steps before the learning rate.
struct AdadeltaRule {
  static constexpr size_t kNumSlots = 2;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate), rho = Number(rho), epsilon = Number(epsilon)](
               auto& variable, const auto& gradient, auto& slots) {
      slots[0] *= rho;
      slots[0] += gradient * gradient * (1 - rho);
      const auto change =
          numbers::square_root(slots[1] + epsilon) * gradient / numbers::square_root(slots[0] + epsilon);
      slots[1] *= rho;
      slots[1] += change * change * (1 - rho);
      variable -= change * rate;
    };
  }

  double rho, epsilon;
};

std::shared_ptr<OptimizerImpl> make_adadelta(const AdadeltaOptions& options) {
  require(options.rho >= 0 && options.rho <= 1, options.name, "rho", options.rho, "in [0, 1]");
  require_not_negative(options.name, "epsilon", options.epsilon);
  return make_elementwise(options, AdadeltaRule{options.rho, options.epsilon});
}

}  // namespace

Adadelta::Adadelta(const AdadeltaOptions& options) : Optimizer(make_adadelta(options)) {
  impl()->tell_made_from({"Adadelta", options});
}

}  // namespace tutti::keras::optimizers
