#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::embedding_dense_backward of float32 as LibTorch does, bit for bit: the rows of the gradient,
// each added to the row that its index names, in their order. LibTorch makes a call of a kernel for each row. Null
// where the rows are not contiguous, the indices are not contiguous int64, or gradients are scaled by how often an
// index comes.
NativeKernel native_embedding_gradient_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
