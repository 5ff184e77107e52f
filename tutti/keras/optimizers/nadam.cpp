#include "tutti/keras/optimizers/nadam.h"

#include "tutti/keras/optimizers/elementwise_internal.h"
#include "tutti/keras/optimizers/nadam_internal.h"

namespace tutti::keras::optimizers {
namespace {

constexpr double kDecay = 0.96;  // of the difference between the momentum and beta_1

double momentum_at(double beta_1, double step) { return beta_1 * (1 - 0.5 * std::pow(kDecay, step)); }

// Slots: first moment, second moment.
struct NadamRule {
  static constexpr size_t kNumSlots = 2;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    const auto t = static_cast<double>(step.number);
    const double next = momentum_at(beta_1, t + 1);
    const double product = product_of_momentum(beta_1, step.number);
    const double of_moment = step.learning_rate * next / (1 - product * next);
    const double of_gradient = step.learning_rate * (1 - momentum_at(beta_1, t)) / (1 - product);
    const double of_velocity = 1 / (1 - std::pow(beta_2, t));
    return [of_moment = Number(of_moment), of_gradient = Number(of_gradient), of_velocity = Number(of_velocity),
            take_1 = Number(1 - beta_1), take_2 = Number(1 - beta_2),
            epsilon = Number(epsilon)](auto& variable, const auto& gradient, auto& slots) {
      slots[0] += (gradient - slots[0]) * take_1;
      slots[1] += (gradient * gradient - slots[1]) * take_2;
      variable -=
          (slots[0] * of_moment + gradient * of_gradient) / (numbers::square_root(slots[1] * of_velocity) + epsilon);
    };
  }

  double beta_1, beta_2, epsilon;
};

std::shared_ptr<OptimizerImpl> make_nadam(const NadamOptions& options) {
  require_decay(options.name, "beta_1", options.beta_1);
  require_decay(options.name, "beta_2", options.beta_2);
  require_not_negative(options.name, "epsilon", options.epsilon);
  return make_elementwise(options, NadamRule{options.beta_1, options.beta_2, options.epsilon});
}

}  // namespace

// Of beta_1 each, and of factors that soon are 1.
double product_of_momentum(double beta_1, int64_t step) {
  double product = std::pow(beta_1, static_cast<double>(step));
  double distance = 0.5;
  for (int64_t i = 1; i <= step && 1 - distance * kDecay != 1; ++i) product *= 1 - (distance *= kDecay);
  return product;
}

Nadam::Nadam(const NadamOptions& options) : Optimizer(make_nadam(options)) {
  impl()->tell_made_from({"Nadam", options});
}

}  // namespace tutti::keras::optimizers
