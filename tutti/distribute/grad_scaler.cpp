#include "tutti/distribute/grad_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/updates/host_buffers.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

constexpr const char* kWayOut = "gradients are one for all replicas outside of run: call it there";

void check(const GradScalerOptions& options) {
  const auto require = [](bool holds, const char* what, auto value) {
    if (!holds) throw Error(ErrorCode::invalid_argument, str("GradScaler: ", what, ", not ", value));
  };
  require(options.init_scale > 0, "init_scale must be more than 0", options.init_scale);
  require(options.growth_factor > 1, "growth_factor must be more than 1", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor must be between 0 and 1",
          options.backoff_factor);
  require(options.growth_interval > 0, "growth_interval must be more than 0", options.growth_interval);
}

// Divides the gradients; whether all are finite, which the host waits for once.
bool divide(torch::optim::Optimizer& optimizer, double scale) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> are_finite;
  for (auto& group : optimizer.param_groups())
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      std::vector<Tensor> parts = sparse_values_of(parameter.grad());
      if (parts.empty()) parts.push_back(parameter.grad());
      for (const Tensor& part : parts) {
        part.mul_(1 / scale);
        are_finite.push_back(gather(at::isfinite(part).all()));
      }
    }
  if (are_finite.empty()) return true;
  for (Tensor& each : are_finite) each = each.to(are_finite[0].device());
  return at::stack(are_finite).all().item<bool>();
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(options.init_scale) {
  check(options);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const { return options_.enabled ? scale_.times(loss) : loss; }

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  require_global_view("GradScaler::unscale_", kWayOut);
  if (!options_.enabled) return;
  reads_memory("GradScaler::unscale_");
  if (const auto found = optimizers_.find(&optimizer); found != optimizers_.end())
    throw Error(ErrorCode::failed_precondition,
                str("GradScaler::unscale_: the gradients of this optimizer were divided by the scale",
                    found->second.has_stepped ? " and its step was taken" : "", " since the last update()"));
  optimizers_[&optimizer].is_finite = divide(optimizer, *scale_);
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  require_global_view("GradScaler::step", kWayOut);
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  reads_memory("GradScaler::step");
  if (!optimizers_.contains(&optimizer)) unscale_(optimizer);
  OptimizerState& state = optimizers_.at(&optimizer);
  if (state.has_stepped)
    throw Error(ErrorCode::failed_precondition,
                "GradScaler::step: a second step of this optimizer; call update() after the step of each");
  state.has_stepped = true;
  if (state.is_finite) optimizer.step();
  return state.is_finite;
}

void GradScaler::update() {
  require_global_view("GradScaler::update", kWayOut);
  if (!options_.enabled) return;
  reads_memory("GradScaler::update");
  if (std::ranges::none_of(optimizers_, [](const auto& entry) { return entry.second.has_stepped; }))
    throw Error(ErrorCode::failed_precondition, "GradScaler::update: there was no step since the last one");
  const bool are_finite = std::ranges::all_of(optimizers_, [](const auto& entry) { return entry.second.is_finite; });
  optimizers_.clear();
  if (!are_finite) {
    *scale_ *= options_.backoff_factor;
    steps_in_a_row_ = 0;
  } else if (++steps_in_a_row_ == options_.growth_interval) {
    *scale_ *= options_.growth_factor;
    steps_in_a_row_ = 0;
  }
}

void GradScaler::visit_state(StateVisitor& visitor) {
  visitor.number("scale", *scale_);
  visitor.number("steps_in_a_row", steps_in_a_row_);
}

}  // namespace tutti
