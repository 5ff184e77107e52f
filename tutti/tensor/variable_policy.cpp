#include "tutti/tensor/variable_policy.h"

#include <ATen/ops/equal.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

// The mean of equal floats is not always that float; values that agree must stay as they are.
bool agree(c10::ArrayRef<Tensor> values) {
  return std::all_of(values.begin() + 1, values.end(),
                     [&](const Tensor& value) { return at::equal(value.to(values[0].device()), values[0]); });
}

}  // namespace

std::string_view to_string(VariableAggregation aggregation) {
  switch (aggregation) {
    case VariableAggregation::none: return "none";
    case VariableAggregation::sum: return "sum";
    case VariableAggregation::mean: return "mean";
    case VariableAggregation::only_first_replica: return "only_first_replica";
  }
  return "?";
}

std::string_view to_string(VariableSynchronization synchronization) {
  switch (synchronization) {
    case VariableSynchronization::auto_: return "auto_";
    case VariableSynchronization::none: return "none";
    case VariableSynchronization::on_write: return "on_write";
    case VariableSynchronization::on_read: return "on_read";
  }
  return "?";
}

Tensor aggregate(VariableAggregation aggregation, c10::ArrayRef<Tensor> values) {
  switch (aggregation) {
    case VariableAggregation::none:
      throw Error(ErrorCode::internal, "aggregate: the values of a variable without aggregation cannot become one");
    case VariableAggregation::only_first_replica: return values[0];
    case VariableAggregation::mean:
      if (agree(values)) return values[0];
      break;
    case VariableAggregation::sum:
      if (values.size() == 1) return values[0];
      break;
  }
  const bool mean = aggregation == VariableAggregation::mean;
  BufferSum sum{.values = {values.begin(), values.end()}, .divisor = mean ? static_cast<double>(values.size()) : 1};
  sum_buffers({&sum, 1});
  return sum.result;
}

}  // namespace tutti
