#include "tutti/keras/optimizers/sgd.h"

#include "tutti/keras/optimizers/elementwise_internal.h"

namespace tutti::keras::optimizers {
namespace {

struct Plain {
  static constexpr size_t kNumSlots = 0;
  std::array<double, kNumSlots> initial_slots() const { return {}; }
  bool keeps_still() const { return true; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate)](auto& variable, const auto& gradient, auto&) {
      variable -= gradient * rate;
    };
  }
};

template <bool kNesterov>
struct WithMomentum {
  static constexpr size_t kNumSlots = 1;
  std::array<double, kNumSlots> initial_slots() const { return {}; }

  template <class Number>
  auto at(const UpdateStep& step) const {
    return [rate = Number(step.learning_rate), momentum = Number(momentum)](auto& variable, const auto& gradient,
                                                                            auto& slots) {
      auto& velocity = slots[0];
      const auto change = gradient * rate;
      velocity *= momentum;
      velocity -= change;
      if constexpr (kNesterov)
        variable += velocity * momentum - change;
      else
        variable += velocity;
    };
  }

  double momentum;
};

std::shared_ptr<OptimizerImpl> make_sgd(const SGDOptions& options) {
  require_momentum(options.name, options.momentum);
  if (options.momentum == 0) return make_elementwise(options, Plain());
  if (options.nesterov) return make_elementwise(options, WithMomentum<true>{options.momentum});
  return make_elementwise(options, WithMomentum<false>{options.momentum});
}

}  // namespace

SGD::SGD(const SGDOptions& options) : Optimizer(make_sgd(options)) { impl()->tell_made_from({"SGD", options}); }

}  // namespace tutti::keras::optimizers
