// Updates in functions that are compiled.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/optimizers/optimizer_impl.h"
#include "tutti/keras/optimizers/step_numbers_internal.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::optimizers {
namespace {

// The square root of the sum of all squares, none of which overflows.
Tensor norm_of(const std::vector<Tensor>& gradients) {
  Tensor largest, sum;
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const Tensor here = gradient.abs().amax();
    largest = largest.defined() ? at::maximum(largest, here) : here;
  }
  if (!largest.defined()) return at::zeros({});
  largest = largest.clamp_min(std::numeric_limits<float>::min());
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const Tensor here = (gradient / largest).square().sum();
    sum = sum.defined() ? sum + here : here;
  }
  return largest * sum.sqrt();
}

// Half precision is summed in float32.
Tensor wide(const Tensor& gradient) {
  const at::ScalarType dtype = gradient.scalar_type();
  return dtype == at::kHalf || dtype == at::kBFloat16 ? gradient.to(at::kFloat) : gradient;
}

// By the norm of each, or that of all together.
void shrink(std::vector<Tensor>& gradients, double limit, bool together) {
  std::vector<Tensor> seen;
  for (const Tensor& gradient : gradients) seen.push_back(wide(gradient));
  Tensor factor;
  if (together) {
    const Tensor norm = norm_of(seen);
    factor = limit / norm.clamp_min(limit) + (norm - norm);  // as in Keras, one infinite element makes all of them NaN
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor own = together ? factor : limit / norm_of({seen[i]}).clamp_min(limit);
    gradients[i] = (seen[i] * own.to(seen[i].scalar_type())).to(gradients[i].scalar_type());
  }
}

}  // namespace

void OptimizerImpl::require_compilable() const {
  const char* const option = options_.use_ema                       ? "use_ema"
                             : options_.gradient_accumulation_steps ? "gradient_accumulation_steps"
                                                                    : nullptr;
  if (option)
    throw Error(ErrorCode::unimplemented,
                str(name(), ": ", option, " cannot be compiled yet; leave it out under a TPUStrategy"));
  if (!is_elementwise())
    throw Error(ErrorCode::unimplemented, str(name(),
                                              " cannot be compiled yet; SGD, Adam and other optimizers whose "
                                              "elements do not depend on each other can"));
  if (std::ranges::any_of(states_, [](const VariableState& state) { return state.constraint.has_value(); }))
    throw Error(ErrorCode::unimplemented, str(name(), ": a variable with a constraint cannot be compiled yet"));
}

// What C++ computes of a step, each run computes anew on the host: its numbers, and that there was one more.
void OptimizerImpl::apply_compiled(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) {
  const c10::NoGradGuard no_grad;
  const GlobalViewGuard view;
  if (states_.empty()) {
    const UnrecordedGuard once;
    make_states(variables);
  }
  require_compilable();
  const bool in_double =
      std::ranges::any_of(variables, [](const Tensor& variable) { return variable.scalar_type() == at::kDouble; });
  const auto write_numbers = [this, in_double] {
    const UpdateStep step = next_step();
    StepNumbers::write(step_numbers_, in_double ? at::kDouble : at::kFloat, [&] {
      if (options_.weight_decay) StepNumber(1 - *options_.weight_decay * step.learning_rate);
      make_numbers(step);
    });
  };
  if (!step_numbers_.defined()) {
    const UnrecordedGuard once;
    write_numbers();
  }
  const UpdateStep step = next_step();
  host_step((name() + "'s numbers").c_str(), {}, {step_numbers_},
            [this, self = weak_from_this().lock(), write_numbers](at::ArrayRef<Tensor>) {
              write_numbers();
              ++num_calls_;
            });
  const StepNumbers::Reading reading(step_numbers_);
  const Tensor decayed = options_.weight_decay ? StepNumber(0) : Tensor();
  std::vector<Tensor> seen;
  std::vector<size_t> places;  // in `variables`
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    seen.push_back(scale == 1 ? gradients[i] : gradients[i] * scale);
    places.push_back(i);
  }
  if (options_.clipnorm) shrink(seen, *options_.clipnorm, /*together=*/false);
  if (options_.global_clipnorm) shrink(seen, *options_.global_clipnorm, /*together=*/true);
  std::vector<CompiledUpdate> updates;
  for (size_t k = 0; k < seen.size(); ++k) {
    const VariableState& state = state_of(variables[places[k]], places[k]);
    if (options_.clipvalue) seen[k] = seen[k].clamp(-*options_.clipvalue, *options_.clipvalue);
    if (decayed.defined() && state.decays) Tensor(state.variable).mul_(decayed);
    updates.push_back({seen[k], state.variable, state.slots});
  }
  update_compiled(updates, step);
}

}  // namespace tutti::keras::optimizers
