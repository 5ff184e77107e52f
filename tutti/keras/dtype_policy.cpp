#include "tutti/keras/dtype_policy.h"

#include <utility>

namespace tutti::keras {
namespace {

thread_local DTypePolicy current_policy = DTypePolicy::of_inputs;

}  // namespace

std::optional<c10::ScalarType> compute_dtype(DTypePolicy policy) {
  switch (policy) {
    case DTypePolicy::of_inputs: return std::nullopt;
    case DTypePolicy::float32: return c10::kFloat;
    case DTypePolicy::mixed_bfloat16: return c10::kBFloat16;
    case DTypePolicy::mixed_float16: return c10::kHalf;
  }
  return std::nullopt;
}

DTypePolicyGuard::DTypePolicyGuard(DTypePolicy policy) : before_(std::exchange(current_policy, policy)) {}
DTypePolicyGuard::~DTypePolicyGuard() { current_policy = before_; }
DTypePolicy DTypePolicyGuard::current() { return current_policy; }

}  // namespace tutti::keras
