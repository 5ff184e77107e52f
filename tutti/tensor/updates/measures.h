#pragma once

#include <ATen/core/Tensor.h>

// What training asks of all elements of a gradient: in one pass where they are in host memory, the same on any number
// of threads; elsewhere by LibTorch's ops.
namespace tutti {

using Tensor = at::Tensor;

// In double precision. Infinite or NaN where an element is.
double sum_of_squares(const Tensor& tensor);
bool all_finite(const Tensor& tensor);

}  // namespace tutti
