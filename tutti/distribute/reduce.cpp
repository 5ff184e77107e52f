#include "tutti/distribute/reduce.h"

#include <ATen/ops/sum.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

void check_alike(const std::vector<Tensor>& values) {
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i].sizes() != values[0].sizes() || values[i].scalar_type() != values[0].scalar_type())
      throw Error(ErrorCode::invalid_argument,
                  str("reduce: replica ", i, " has ", values[i].toString(), " of shape ", str_list(values[i].sizes()),
                      ", replica 0 has ", values[0].toString(), " of shape ", str_list(values[0].sizes()),
                      "; every replica must pass one shape and dtype"));
}

void check_mean(const Tensor& value) {
  if (!at::isFloatingType(value.scalar_type()) && !at::isComplexType(value.scalar_type()))
    throw Error(ErrorCode::invalid_argument,
                str("reduce: the mean of ", value.toString(), " is no integer; sum it, or convert it first"));
}

}  // namespace

Tensor reduce_tensors(ReduceOp op, const std::vector<Tensor>& values) {
  check_alike(values);
  if (op == ReduceOp::mean) check_mean(values[0]);
  if (values.size() == 1) return values[0];
  BufferSum sum{.values = {values.begin(), values.end()},
                .divisor = op == ReduceOp::mean ? static_cast<double>(values.size()) : 1};
  sum_buffers({&sum, 1});
  return sum.result;
}

std::vector<Tensor> all_reduce_tensors(ReduceOp op, const std::vector<Tensor>& values) {
  const Tensor reduced = reduce_tensors(op, values);
  std::vector<Tensor> results;
  // Copies, not shares copy-on-write: LibTorch's count of shares may free it twice when replicas drop theirs at once.
  for (const Tensor& value : values)
    results.push_back(reduced.to(value.device(), value.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return results;
}

Tensor reduce_axis(ReduceOp op, const std::vector<Tensor>& values, int64_t axis) {
  const int64_t rank = values[0].dim();
  if (axis < -rank || axis >= rank)
    throw Error(ErrorCode::out_of_range,
                str("reduce: axis ", axis, " of a value of rank ", rank, "; it must be in [", -rank, ", ", rank, ")"));
  if (op == ReduceOp::mean) check_mean(values[0]);
  std::vector<Tensor> sums;
  int64_t count = 0;
  for (const Tensor& value : values) {
    if (value.dim() != rank)
      throw Error(ErrorCode::invalid_argument, str("reduce: values of rank ", rank, " and ", value.dim()));
    sums.push_back(at::sum(value, {axis}));
    count += value.size(axis);
  }
  const Tensor sum = reduce_tensors(ReduceOp::sum, sums);
  return op == ReduceOp::mean ? sum.div(static_cast<double>(count)) : sum;
}

}  // namespace tutti
