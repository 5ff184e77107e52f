#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "tutti/core/tensor_version.h"

namespace tutti {

// What a replica has of a variable, with the gradient that it had when a recording met it.
class ReplicaLeaf {
 public:
  ReplicaLeaf(at::Tensor variable, const at::Tensor& leaf)
      : variable_(std::move(variable)), leaf_(leaf), gradient_(leaf.grad()), version_(version_of(gradient_)) {}

  const at::Tensor& variable() const { return variable_; }
  bool had_gradient() const { return gradient_.defined(); }
  // Whether there is one now, which is another or was written since.
  bool has_new_gradient() const {
    return leaf_.grad().defined() && !(leaf_.grad().is_same(gradient_) && version_of(gradient_) == version_);
  }

 private:
  at::Tensor variable_, leaf_, gradient_;
  int64_t version_;
};

}  // namespace tutti
