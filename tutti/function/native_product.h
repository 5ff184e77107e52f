#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::mm or aten::addmm of float32 as LibTorch does it on this processor, bit for bit; null where
// that is not known to be faster, or where another shape, layout or scale is asked for. Numbers of these shapes are
// multiplied in both ways before, where that was not done yet. Reads the matrices and the bias; writes the result, the
// last argument.
NativeKernel native_product_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
