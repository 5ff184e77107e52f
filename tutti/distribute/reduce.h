#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <type_traits>
#include <vector>

#include "tutti/collectives/reduce_op.h"
#include "tutti/core/per_replica.h"
#include "tutti/distribute/axes.h"

// The arithmetic that reductions and gathers are made of: rules of dtypes and shapes, and work on one device.
namespace tutti {

using Tensor = at::Tensor;

// Throws invalid_argument for values of unequal shapes, dtypes or layouts, and for booleans.
void require_reducible(std::span<const Tensor> values);
// Throws invalid_argument unless at::cat joins the values along `axis`; out_of_range unless it is in [0, rank).
void require_gatherable(std::span<const Tensor> values, int64_t axis);

// The values in the dtype of their mean: integers become float64, those of 8 and 16 bits float32.
std::vector<Tensor> for_mean(std::vector<Tensor> values);

// The elementwise sum or mean of reducible values, in their order, on the device of the first; one is returned as it
// is.
Tensor reduce_tensors(ReduceOp op, const std::vector<Tensor>& values);

// Sparse values, joined in their order with duplicate indices kept; the mean divides them by their number.
Tensor concatenate_sparse(ReduceOp op, std::span<const Tensor> values);

// The sums of values over some of their axes, and how many elements of all values one sum adds up.
struct AxisSums {
  std::vector<Tensor> sums;
  int64_t count = 0;
};
// Dtype: kept; with op mean that of the mean. Throws: as Axes::of_rank; invalid_argument for booleans.
AxisSums sum_over_axes(ReduceOp op, std::span<const Tensor> values, const Axes& axes);

// The sum or mean of numbers. Throws: invalid_argument for the mean of integers.
template <class T>
T reduce_numbers(ReduceOp op, const PerReplica<T>& values) {
  T sum{};
  for (const T& value : values) sum += value;
  if (op == ReduceOp::sum) return sum;
  if constexpr (std::is_integral_v<T>)
    throw Error(ErrorCode::invalid_argument, "reduce: the mean of integers is no integer; sum them, or convert them");
  else
    return sum / static_cast<T>(values.size());
}

}  // namespace tutti
