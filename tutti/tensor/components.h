#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace tutti {

using Tensor = at::Tensor;

// The plain tensors that hold a value, one for each coordinate of the mesh dimensions that its spec stores apart.
using Components = c10::SmallVector<Tensor, 8>;

}  // namespace tutti
