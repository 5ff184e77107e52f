#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What compares predictions with labels: an aten::argmax of the rows of a small float32 matrix, an aten::eq.Tensor of
// as many int64 numbers, and an aten::_to_copy of truth values to float32; all contiguous. Null for all others. Reads
// the tensors among the arguments; writes the last one.
NativeKernel native_accuracy_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
