#pragma once

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

// Whether two tensors have the same sizes, dtype and bits, wherever they lie, or are both undefined. Mesh tensors are
// gathered.
inline testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) {
    if (a.defined() == b.defined()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "one of the tensors is undefined";
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
    return testing::AssertionFailure() << a.toString() << a.sizes() << " and " << b.toString() << b.sizes();
  const auto packed = [](const Tensor& tensor) {
    const Tensor whole = tutti::gather(tensor.detach());
    return at::empty(whole.sizes(), whole.options().device(at::kCPU)).copy_(whole);
  };
  const Tensor x = packed(a), y = packed(b);
  if (x.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) != 0)
    return testing::AssertionFailure() << x << " and " << y;
  return testing::AssertionSuccess();
}

}  // namespace tutti
