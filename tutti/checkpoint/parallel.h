#pragma once

#include <cstddef>

#include "tutti/core/function_ref.h"

namespace tutti::checkpoint {

// Calls work(item) for each item below `num_items` on `num_threads` threads, the caller's among them, which take them
// in order as they get free. Rethrows the exception of the lowest item that failed; later ones may be left out.
void for_each_item(size_t num_items, int num_threads, FunctionRef<void(size_t item)> work);

}  // namespace tutti::checkpoint
