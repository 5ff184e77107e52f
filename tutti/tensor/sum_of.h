#pragma once

#include <ATen/core/Tensor.h>

namespace tutti {

// a + b, of which either may be sparse: LibTorch adds a sparse tensor to a dense one, and not the other way round.
inline at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  return a.is_sparse() && !b.is_sparse() ? b.add(a) : a.add(b);
}

}  // namespace tutti
