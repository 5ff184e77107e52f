#include "tutti/keras/dtype_policy.h"

#include <c10/core/DefaultDtype.h>

#include <utility>

namespace tutti::keras {
namespace {

thread_local DTypePolicy current_policy = DTypePolicy::of_weights;

}  // namespace

std::optional<c10::ScalarType> compute_dtype(DTypePolicy policy) {
  switch (policy) {
    case DTypePolicy::of_weights: return std::nullopt;
    case DTypePolicy::float32: return c10::kFloat;
    case DTypePolicy::float64: return c10::kDouble;
    case DTypePolicy::bfloat16:
    case DTypePolicy::mixed_bfloat16: return c10::kBFloat16;
    case DTypePolicy::float16:
    case DTypePolicy::mixed_float16: return c10::kHalf;
  }
  return std::nullopt;
}

bool is_mixed(DTypePolicy policy) {
  return policy == DTypePolicy::mixed_bfloat16 || policy == DTypePolicy::mixed_float16;
}

c10::ScalarType variable_dtype(DTypePolicy policy) {
  if (is_mixed(policy)) return c10::kFloat;
  return compute_dtype(policy).value_or(c10::get_default_dtype_as_scalartype());
}

DTypePolicyGuard::DTypePolicyGuard(DTypePolicy policy) : before_(std::exchange(current_policy, policy)) {}
DTypePolicyGuard::~DTypePolicyGuard() { current_policy = before_; }
DTypePolicy DTypePolicyGuard::current() { return current_policy; }

}  // namespace tutti::keras
