#include "tutti/tensor/parallel_ranges.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include <algorithm>

namespace tutti {

void parallel_ranges(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> f) {
  const int64_t num_ranges = count / std::max(grain, int64_t{1});
  if (num_ranges < 2 || at::get_num_threads() == 1 || at::in_parallel_region()) {
    if (count > 0) f(0, count);
    return;
  }
  // An iterator over one byte for each range is what LibTorch divides among its threads.
  at::Tensor tickets = at::detail::empty_cpu({num_ranges}, at::kByte);
  auto iterator = at::TensorIterator::nullary_op(tickets);
  const auto* first = static_cast<const char*>(tickets.const_data_ptr());
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) {
        const int64_t range = data[0] - first, end = range + size;
        f(range * grain, end == num_ranges ? count : end * grain);
      },
      /*grain_size=*/1);
}

}  // namespace tutti
