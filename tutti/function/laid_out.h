#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tutti/tensor/spec.h"

namespace tutti {

using Tensor = at::Tensor;

// Where the parts of a value are in a list of plain tensors. A mesh tensor is there as its components.
struct LaidOut {
  const Spec* spec = nullptr;  // null: a plain tensor, in one part
  Tensor same_as = {};         // of a result: a mesh tensor from outside that it is
  bool requires_grad = false;  // of a mesh tensor

  bool operator==(const LaidOut& other) const { return spec == other.spec && same_as.is_same(other.same_as); }
};

struct TakenApart {
  std::vector<Tensor> plain = {};
  std::vector<LaidOut> values = {};
};

TakenApart take_apart(at::ArrayRef<Tensor> values);
// The values again, of other plain tensors.
std::vector<Tensor> put_together(std::vector<Tensor> plain, const std::vector<LaidOut>& values);

}  // namespace tutti
