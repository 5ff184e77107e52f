#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Tensors that lie one behind the other in a buffer, which is summed or sent as one.
namespace tutti {

// The bytes that a value takes there: a multiple of 64, so that each begins where kernels are fast.
int64_t packed_bytes(const at::Tensor& value);

// The tensor of this geometry that begins so many bytes behind the pack's beginning, in the pack's dtype. Not a view:
// it has a version of its own.
at::Tensor in_pack(const at::Tensor& pack, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace tutti
