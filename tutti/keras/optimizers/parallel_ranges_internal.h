#pragma once

#include <cstdint>

#include "tutti/core/function_ref.h"

namespace tutti::keras::optimizers {

// Calls f for ranges [begin, end) that make up [0, count): on the caller's thread for a few, else on LibTorch's, whose
// number at::set_num_threads sets. at::parallel_for does so only in code that is compiled with OpenMP.
void parallel_ranges(int64_t count, FunctionRef<void(int64_t begin, int64_t end)> f);

}  // namespace tutti::keras::optimizers
