#include "tutti/keras/optimizers/adagrad.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

struct AdagradRule {
  static constexpr size_t kNumSlots = 1;
  std::array<double, kNumSlots> initial_slots() const { return {initial_value}; }
  bool keeps_still() const { return initial_value + epsilon > 0; }  // else it divides by zero

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate), epsilon = Number(epsilon)](auto& variable, const auto& gradient,
                                                                          auto& slots) {
      slots[0] += gradient * gradient;
      variable -= gradient * rate / numbers::square_root(slots[0] + epsilon);
    };
  }

  double initial_value, epsilon;
};

std::shared_ptr<OptimizerImpl> make_adagrad(const AdagradOptions& options) {
  require_not_negative(options.name, "initial_accumulator_value", options.initial_accumulator_value);
  require_not_negative(options.name, "epsilon", options.epsilon);
  return make_elementwise(options, AdagradRule{options.initial_accumulator_value, options.epsilon});
}

}  // namespace

Adagrad::Adagrad(const AdagradOptions& options) : Optimizer(make_adagrad(options)) {
  impl()->tell_made_from({"Adagrad", options});
}

}  // namespace tutti::keras::optimizers
