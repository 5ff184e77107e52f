#include "tutti/tensor/variable_policy.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/tensor/comparable.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

bool agree(c10::ArrayRef<Tensor> values) {
  const Tensor first = comparable(values[0]);
  return std::all_of(values.begin() + 1, values.end(),
                     [&](const Tensor& value) { return at::equal(comparable(value.to(first.device())), first); });
}

// The mean of equal floats is not always that float: elements that agree stay as they are, for others that share their
// memory may have been written alone.
Tensor keep_equal(c10::ArrayRef<Tensor> values, const Tensor& mean) {
  Tensor equal = values[0].eq(values[1].to(values[0].device()));
  for (size_t i = 2; i < values.size(); ++i) equal.logical_and_(values[0].eq(values[i].to(values[0].device())));
  return at::where(equal, values[0], mean);
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
  return mean && values.size() > 2 ? keep_equal(values, sum.result) : sum.result;
}

}  // namespace tutti
