#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include "tutti/keras/optimizers/parallel_ranges_internal.h"

namespace tutti::keras::optimizers {
namespace {

constexpr int64_t kMinParallel = 4;  // for fewer, waking another thread costs more than it saves

}  // namespace

void parallel_ranges(int64_t count, FunctionRef<void(int64_t begin, int64_t end)> f) {
  if (count < kMinParallel || at::get_num_threads() == 1) return f(0, count);
  // An iterator over one byte for each number is what LibTorch divides among its threads.
  at::Tensor tickets = at::empty({count}, at::kByte);
  auto iterator = at::TensorIterator::nullary_op(tickets);
  const char* first = static_cast<const char*>(tickets.const_data_ptr());
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) { f(data[0] - first, data[0] - first + size); },
      /*grain_size=*/1);
}

}  // namespace tutti::keras::optimizers
