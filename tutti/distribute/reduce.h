#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "tutti/collectives/reduce_op.h"
#include "tutti/core/per_replica.h"

namespace tutti {

using Tensor = at::Tensor;

// The elementwise sum or mean of the values, in their order, on the device of the first.
// Shapes: all [*], result [*]; dtype is kept. Throws: invalid_argument for unequal shapes or dtypes, the mean of
// integers.
Tensor reduce_tensors(ReduceOp op, const std::vector<Tensor>& values);
// The same, a copy of its own on the device of each value.
std::vector<Tensor> all_reduce_tensors(ReduceOp op, const std::vector<Tensor>& values);

// Reduces over `axis` of each value and over the replicas. The mean divides by the number of elements of all replicas,
// so that it is exact where their shards differ. TF: Strategy.reduce(op, value, axis). Shapes: values[i] [*], equal but
// for the axis; result lacks it. Throws: out_of_range for an axis that is not there.
Tensor reduce_axis(ReduceOp op, const std::vector<Tensor>& values, int64_t axis);

}  // namespace tutti
