#pragma once

#include <ATen/core/Tensor.h>

namespace tutti {

// The tensor as at::equal and its like take it: complex32, which they do not know, as complex64.
inline at::Tensor comparable(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kComplexHalf ? tensor.to(at::kComplexFloat) : tensor;
}

}  // namespace tutti
