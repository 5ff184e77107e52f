#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace tutti::keras {

// In which dtype a layer has its weights, and in which it computes. Keras: keras.dtype_policies.
enum class DTypePolicy {
  of_weights,      // weights in LibTorch's default dtype; inputs are cast to the dtype that the weights have
  float32,         // weights, inputs and outputs: for the last layer behind those of a mixed policy
  float64,         // all in float64; so float16 and bfloat16, without a copy of the weights in more digits
  bfloat16,        //
  float16,         //
  mixed_bfloat16,  // weights in float32; inputs and weights are cast to bfloat16 in each call; outputs are bfloat16
  mixed_float16,   // the same in float16; fit then scales the loss, or small gradients would vanish
};

// The dtype that inputs are cast to; nothing where the weights say.
std::optional<c10::ScalarType> compute_dtype(DTypePolicy policy);
// The dtype in which weights are made.
c10::ScalarType variable_dtype(DTypePolicy policy);
// Whether the two differ.
bool is_mixed(DTypePolicy policy);

// The policy of the layers that this thread makes while the guard lives; without one it is of_weights. The last layer
// of a model is best made with float32, so that the loss is computed so. Keras: keras.config.set_dtype_policy.
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
