#pragma once

#include <ATen/core/DimVector.h>

#include "tutti/tensor/components.h"

namespace tutti {

// Whether strides agree for a tensor of these sizes: an axis of one element has none that count, and a tensor without
// elements has none at all.
bool are_same_strides(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b);
// The strides that LibTorch gives a copy of a tensor with these: the same where they leave no gap, else dense ones in
// the same order.
at::DimVector strides_of_copy(const at::TensorBase& tensor);
// The plain value in memory with these strides, which may leave gaps (zeros) or repeat axes. The value itself where it
// lies so.
Tensor laid_out(const Tensor& value, at::IntArrayRef strides);

}  // namespace tutti
