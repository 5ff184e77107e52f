#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::layers {

// In float32 at least: half precision has too few digits for sums, and float16 is infinite from the square of 256 on.
inline Tensor widened(const Tensor& x) { return x.to(c10::promoteTypes(x.scalar_type(), at::kFloat)); }

}  // namespace tutti::keras::layers
