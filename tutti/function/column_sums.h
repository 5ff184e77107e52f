#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::sum.dim_IntList or aten::mean.dim of the columns of a small float32 matrix, with LibTorch's
// order of addition: columns in groups of 32 (of 4 where there are less than 8) each in one chain of rows, what is left
// over in four chains of each fourth row, and chains in pieces of at least 16. The sign of a sum of several
// numbers that are none is open. Null for all others. Reads the matrix; writes the last argument.
NativeKernel native_column_sums_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
