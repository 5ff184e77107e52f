#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <span>
#include <vector>

#include "tutti/collectives/local/host_reduction.h"
#include "tutti/core/function_ref.h"

namespace tutti {

using Tensor = at::Tensor;

// The values that replicas have of one tensor, on their way to becoming one: (values[0] + values[1] + …) / divisor.
// Shapes, dtypes: equal. Values that nobody else holds may be overwritten.
struct BufferSum {
  c10::SmallVector<Tensor, 8> values;
  double divisor = 1;               // of floating point dtypes only, unless 1
  int num_copies = 0;               // how many more results are wanted
  Tensor result = {};               // set by sum_buffers, on the device of values[0]; where given: written to
  std::vector<Tensor> copies = {};  // set by sum_buffers: as result, in memory of their own
  bool is_whole = false;            // the one value is the result already, of all replicas
};

// Calls a function on several threads at once, or on the caller's alone.
using ParallelCall = std::function<void(FunctionRef<void()>)>;

// What sum_buffers writes down; who keeps it from call to call spares the memory's allocation.
struct SumLists {
  std::vector<ReductionItem> reductions;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// Sums all items in one pass over memory where they are dense tensors on the CPU, in the order of the values: bit for
// bit the same on any number of threads. `parallel` is used for much data; empty: the caller sums alone. Values with a
// graph are summed by differentiable ops.
void sum_buffers(std::span<BufferSum> items, const ParallelCall& parallel = {}, SumLists* lists = nullptr);

}  // namespace tutti
