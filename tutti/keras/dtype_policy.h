#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace tutti::keras {

// In which dtype layers compute; their weights stay float32 under the mixed policies, and the optimizer updates those.
// Keras: keras.dtype_policies.
enum class DTypePolicy {
  of_inputs,       // as LibTorch's ops do with what they are given
  float32,         // inputs are cast to float32: for the last layer behind those of a mixed policy
  mixed_bfloat16,  // inputs and weights are cast to bfloat16 in each call; outputs are bfloat16
  mixed_float16,   // the same in float16; fit then scales the loss, or small gradients would vanish
};

// The dtype that inputs are cast to, or nothing.
std::optional<c10::ScalarType> compute_dtype(DTypePolicy policy);

// The policy of the layers that this thread makes while the guard lives. The last layer of a model is best made with
// float32, so that the loss is computed so. Keras: keras.config.set_dtype_policy.
class DTypePolicyGuard {
 public:
  explicit DTypePolicyGuard(DTypePolicy policy);
  ~DTypePolicyGuard();
  DTypePolicyGuard(const DTypePolicyGuard&) = delete;
  DTypePolicyGuard& operator=(const DTypePolicyGuard&) = delete;

  static DTypePolicy current();

 private:
  DTypePolicy before_;
};

}  // namespace tutti::keras
