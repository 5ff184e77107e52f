#include "tutti/keras/optimizers/ftrl.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

constexpr double kSmallest = 1e-30;  // stands for a denominator of 0, where nothing was learnt yet: 0 / 0 is 0

// Slots: accumulator, linear. kRoot: the power is that of a square root.
template <bool kRoot>
struct FtrlRule {
  static constexpr size_t kNumSlots = 2;
  std::array<double, kNumSlots> initial_slots() const { return {options.initial_accumulator_value, 0}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    require(step.learning_rate > 0, options.name, "the learning rate", step.learning_rate,
            "positive, for the update divides by it");
    const double two_l2 = 2 * options.l2_regularization_strength + options.beta / step.learning_rate;
    return [per_rate = Number(1 / step.learning_rate), exponent = Number(-options.learning_rate_power),
            l1 = Number(options.l1_regularization_strength), two_l2 = Number(two_l2),
            shrinkage = Number(2 * options.l2_shrinkage_regularization_strength)](auto& variable, const auto& gradient,
                                                                                  auto& slots) {
      const auto powered = [exponent](const auto& x) {
        if constexpr (kRoot)
          return numbers::square_root(x);
        else
          return numbers::power(x, exponent);
      };
      const auto accumulated = slots[0] + gradient * gradient;
      const auto now = powered(accumulated);
      slots[1] += gradient + variable * shrinkage - (now - powered(slots[0])) * per_rate * variable;
      const auto quadratic = numbers::at_least(now * per_rate + two_l2, Number(kSmallest));
      numbers::assign(variable, (numbers::limited(slots[1], l1) - slots[1]) / quadratic);
      numbers::assign(slots[0], accumulated);
    };
  }

  FtrlOptions options;
};

std::shared_ptr<OptimizerImpl> make_ftrl(const FtrlOptions& options) {
  require(options.learning_rate_power <= 0, options.name, "learning_rate_power", options.learning_rate_power,
          "at most 0");
  require_not_negative(options.name, "initial_accumulator_value", options.initial_accumulator_value);
  require_not_negative(options.name, "l1_regularization_strength", options.l1_regularization_strength);
  require_not_negative(options.name, "l2_regularization_strength", options.l2_regularization_strength);
  require_not_negative(options.name, "l2_shrinkage_regularization_strength",
                       options.l2_shrinkage_regularization_strength);
  require_not_negative(options.name, "beta", options.beta);
  if (options.learning_rate_power == -0.5) return make_elementwise(options, FtrlRule<true>{options});
  return make_elementwise(options, FtrlRule<false>{options});
}

}  // namespace

Ftrl::Ftrl(const FtrlOptions& options) : Optimizer(make_ftrl(options)) { impl()->tell_made_from({"Ftrl", options}); }

}  // namespace tutti::keras::optimizers
