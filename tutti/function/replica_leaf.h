#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tutti/core/tensor_version.h"

namespace tutti {

// A replica's variable, with the gradient that it had when a recording met it.
class ReplicaLeaf {
 public:
  explicit ReplicaLeaf(const at::Tensor& leaf) : leaf_(leaf), gradient_(leaf.grad()), version_(version_of(gradient_)) {}

  const at::Tensor& leaf() const { return leaf_; }
  // Whether there is one now, which is another or was written since.
  bool has_new_gradient() const {
    return leaf_.grad().defined() && !(leaf_.grad().is_same(gradient_) && version_of(gradient_) == version_);
  }

 private:
  at::Tensor leaf_, gradient_;
  int64_t version_;
};

}  // namespace tutti
