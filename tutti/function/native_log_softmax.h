#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::_log_softmax along the last axis, or its gradient, of float32 and of few classes, as LibTorch
// does it with vectors of AVX-512: sums are added one class after the other. Null for all others. Reads the tensors
// among the arguments, writes the last one.
NativeKernel native_log_softmax_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
