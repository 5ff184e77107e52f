#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/keras/optimizers/common_options_internal.h"
#include "tutti/keras/optimizers/numbers_internal.h"
#include "tutti/keras/optimizers/optimizer_impl.h"
#include "tutti/keras/optimizers/step_numbers_internal.h"
#include "tutti/tensor/updates/fused_update.h"
#include "tutti/tensor/updates/vector_code.h"

namespace tutti::keras::optimizers {

// Changes the elements by `change`, a rule. No element depends on another one, says the pragma.
template <class T, size_t kNumSlots, class Change>
void for_elements(const TypedUpdate<T>& elements, const Change& change) {
  const TypedUpdate<T> e = elements;  // not reached by the writes below
  const auto loop = [&]<size_t... I>(std::index_sequence<I...>) {
#pragma GCC ivdep
    for (int64_t i = 0; i < e.count; ++i) {
      const T gradient = numbers::limited(e.gradient[i] * e.gradient_scale, e.gradient_limit);
      T variable = e.variable[i] * e.variable_scale;
      std::array<T, kNumSlots> slots{e.slots[I][i]...};
      change(variable, gradient, slots);
      e.variable[i] = variable;
      ((e.slots[I][i] = slots[I]), ...);
    }
  };
  loop(std::make_index_sequence<kNumSlots>());
}

// An optimizer whose rule gets each element of a variable from that element, its gradient and its slots alone. A rule
// is written once, and runs on numbers in a fused pass over host memory and on tensors elsewhere. It has
//   static constexpr size_t kNumSlots
//   std::array<double, kNumSlots> initial_slots() const
//   template <class Number> auto at(const UpdateStep& step) const: a function of (variable, gradient, array of slots)
//       that changes the variable and the slots, and whose constants are of type Number.
// and may have
//   bool keeps_still() const: as OptimizerImpl
template <class Rule>
class ElementwiseImpl final : public OptimizerImpl {
 public:
  ElementwiseImpl(CommonOptions options, const Rule& rule)
      : OptimizerImpl(std::move(options), slots_of(rule)), rule_(rule) {}

 private:
  static constexpr size_t kNumSlots = Rule::kNumSlots;

  static std::vector<double> slots_of(const Rule& rule) {
    const std::array<double, kNumSlots> initial = rule.initial_slots();
    return {initial.begin(), initial.end()};
  }

  bool is_elementwise() const override { return true; }
  bool keeps_still() const override {
    if constexpr (requires { rule_.keeps_still(); })
      return rule_.keeps_still();
    else
      return false;
  }

  void update_buffers(std::span<const BufferUpdate> updates, const UpdateStep& step) const override {
    const auto in_float = rule_.template at<float>(step);
    const auto in_double = rule_.template at<double>(step);
    const auto floats = [&](const TypedUpdate<float>& elements) {
      in_vectors([&] { for_elements<float, kNumSlots>(elements, in_float); });
    };
    const auto doubles = [&](const TypedUpdate<double>& elements) {
      in_vectors([&] { for_elements<double, kNumSlots>(elements, in_double); });
    };
    fused_update(updates, {.num_slots = kNumSlots, .in_float = floats, .in_double = doubles});
  }

  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    std::array<Tensor, kNumSlots> handles;
    for (size_t slot = 0; slot < kNumSlots; ++slot) handles[slot] = slots[slot];
    Tensor target = variable;
    rule_.template at<double>(step)(target, gradient, handles);
  }

  void make_numbers(const UpdateStep& step) const override { static_cast<void>(rule_.template at<StepNumber>(step)); }

  void update_compiled(std::span<const CompiledUpdate> updates, const UpdateStep& step) const override {
    const auto change = rule_.template at<StepNumber>(step);
    for (const auto& [gradient, variable, slots] : updates) {
      std::array<Tensor, kNumSlots> handles;
      for (size_t slot = 0; slot < kNumSlots; ++slot) handles[slot] = slots[slot];
      Tensor target = variable;
      change(target, gradient, handles);
    }
  }

  Rule rule_;
};

template <class Options, class Rule>
std::shared_ptr<OptimizerImpl> make_elementwise(const Options& options, const Rule& rule) {
  return std::make_shared<ElementwiseImpl<Rule>>(common_options(options), rule);
}

}  // namespace tutti::keras::optimizers
