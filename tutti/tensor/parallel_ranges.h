#pragma once

#include <cstdint>

#include "tutti/core/function_ref.h"

namespace tutti {

// Calls f for ranges [begin, end) that make up [0, count), each of at least `grain`: on the threads that LibTorch has
// for one op (at::set_num_threads), or, where there are not two such ranges, on the caller's. Rethrows what f throws.
// at::parallel_for would be one loop here: it uses threads only in code that is compiled with OpenMP.
void parallel_ranges(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> f);

}  // namespace tutti
