#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::binary_cross_entropy_with_logits of few contiguous float32 numbers without weights, of each
// element, as LibTorch composes it: (1 - target) * input - log_sigmoid(input), of which the last is LibTorch's own.
// Null for all others. Reads the numbers; writes the last argument.
NativeKernel native_losses_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
