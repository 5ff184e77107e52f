#include "tutti/keras/optimizers/rmsprop.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

// Slots: velocity, momentum if there is any, average gradient if centered.
template <bool kMomentum, bool kCentered>
struct RMSpropRule {
  static constexpr size_t kNumSlots = 1 + kMomentum + kCentered;
  std::array<double, kNumSlots> initial_slots() const { return {options.initial_velocity}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate), rho = Number(options.rho), momentum = Number(options.momentum),
            epsilon = Number(options.epsilon)](auto& variable, const auto& gradient, auto& slots) {
      auto& velocity = slots[0];
      velocity *= rho;
      velocity += gradient * gradient * (1 - rho);
      auto denominator = velocity + epsilon;
      if constexpr (kCentered) {
        auto& average = slots[1 + kMomentum];
        average *= rho;
        average += gradient * (1 - rho);
        denominator = numbers::at_least(velocity - average * average, Number(0)) + epsilon;
      }
      const auto change = gradient * rate / numbers::square_root(denominator);
      if constexpr (kMomentum) {
        slots[1] *= momentum;
        slots[1] += change;
        variable -= slots[1];
      } else {
        variable -= change;
      }
    };
  }

  RMSpropOptions options;
};

std::shared_ptr<OptimizerImpl> make_rmsprop(const RMSpropOptions& options) {
  require(options.rho >= 0 && options.rho <= 1, options.name, "rho", options.rho, "in [0, 1]");
  require_momentum(options.name, options.momentum);
  require_not_negative(options.name, "epsilon", options.epsilon);
  require_not_negative(options.name, "initial_velocity", options.initial_velocity);
  if (options.momentum == 0)
    return options.centered ? make_elementwise(options, RMSpropRule<false, true>{options})
                            : make_elementwise(options, RMSpropRule<false, false>{options});
  return options.centered ? make_elementwise(options, RMSpropRule<true, true>{options})
                          : make_elementwise(options, RMSpropRule<true, false>{options});
}

}  // namespace

RMSprop::RMSprop(const RMSpropOptions& options) : Optimizer(make_rmsprop(options)) {
  impl()->tell_made_from({"RMSprop", options});
}

}  // namespace tutti::keras::optimizers
