#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::sum, aten::mean, aten::sum.dim_IntList or aten::mean.dim of few contiguous float32 numbers,
// with LibTorch's order of addition: of all of them, of those along axes of one element, and of the columns of a
// matrix. All of them are added in vectors of 8, in four chains of each fourth one; columns in groups of 32 (of 4 where
// there are less than 8) each in one chain of rows, what is left over in four chains of each fourth row; and chains in
// pieces of at least 16. The sign of a sum of several numbers that are none is open. Null for all others. Reads the
// numbers; writes the last argument.
NativeKernel native_sums_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
