#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::embedding or its aten::embedding_dense_backward of float32 as LibTorch does, bit for bit: rows
// that are copied, or added in the indices' order to those that they name. LibTorch makes a call of a kernel for each
// row of a gradient. Null where rows or int64 indices are not contiguous, or gradients are scaled by how often an index
// comes.
NativeKernel native_embedding_of(const std::string& op, const torch::jit::Stack& arguments);

// The same of the gradient of a select(): zeros but for what was selected. Null where that is not contiguous.
NativeKernel native_selection_gradient_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
