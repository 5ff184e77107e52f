#include "tutti/distribute/reduce.h"

#include <ATen/ops/sum.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/sparse_tensor.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

std::string describe(const Tensor& value) {
  return tutti::str(value.toString(), " of shape ", str_list(value.sizes()));  // of sparse ones toString() says so
}

template <class... What>
[[noreturn]] void refuse_values(const What&... what) {
  throw Error(ErrorCode::invalid_argument, tutti::str(what...));
}

void require_numbers(const Tensor& value) {
  if (value.scalar_type() == at::kBool)
    refuse_values("reduce: booleans have no sum and no mean; convert them first, such as by .to(torch::kInt)");
}

bool has_exact_mean(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

}  // namespace

void require_reducible(std::span<const Tensor> values) {
  const Tensor& first = values[0];
  require_numbers(first);
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i].sizes() != first.sizes() || values[i].scalar_type() != first.scalar_type() ||
        values[i].layout() != first.layout() || (first.is_sparse() && values[i].sparse_dim() != first.sparse_dim()))
      refuse_values("reduce: replica ", i, " has ", describe(values[i]), ", replica 0 has ", describe(first),
                    "; every replica must pass one shape, dtype and layout");
}

void require_gatherable(std::span<const Tensor> values, int64_t axis) {
  const Tensor& first = values[0];
  const int64_t rank = first.dim();
  if (rank == 0) refuse_values("gather: the value is a scalar, which has no axis to join along; unsqueeze(0) it first");
  if (axis < 0 || axis >= rank)
    throw Error(ErrorCode::out_of_range,
                str("gather: axis ", axis, " of a value of rank ", rank, "; it must be in [0, ", rank, ")"));
  for (size_t i = 1; i < values.size(); ++i) {
    bool fits = values[i].dim() == rank && values[i].scalar_type() == first.scalar_type();
    for (int64_t d = 0; fits && d < rank; ++d) fits = d == axis || values[i].size(d) == first.size(d);
    if (!fits)
      refuse_values("gather: replica ", i, " has ", describe(values[i]), ", replica 0 has ", describe(first),
                    "; dtypes, ranks and all axes but ", axis, " must be equal");
  }
}

std::vector<Tensor> for_mean(std::vector<Tensor> values) {
  const at::ScalarType dtype = values[0].scalar_type();
  if (has_exact_mean(dtype)) return values;
  for (Tensor& value : values) value = value.to(c10::elementSize(dtype) < 4 ? at::kFloat : at::kDouble);
  return values;
}

Tensor reduce_tensors(ReduceOp op, const std::vector<Tensor>& values) {
  if (values.size() == 1) return values[0];
  BufferSum sum{.values = {values.begin(), values.end()},
                .divisor = op == ReduceOp::mean ? static_cast<double>(values.size()) : 1};
  sum_buffers({&sum, 1});
  return sum.result;
}

Tensor concatenate_sparse(ReduceOp op, std::span<const Tensor> values) {
  SparseTerms terms = terms_of(values, values[0].device());
  if (op == ReduceOp::mean) terms.values = for_mean({terms.values})[0].div(static_cast<double>(values.size()));
  return sparse_tensor(terms.indices, terms.values, values[0].sizes(), /*is_coalesced=*/false);
}

AxisSums sum_over_axes(ReduceOp op, std::span<const Tensor> values, const Axes& axes) {
  AxisSums result;
  require_numbers(values[0]);
  std::vector<Tensor> terms(values.begin(), values.end());
  if (op == ReduceOp::mean) terms = for_mean(std::move(terms));
  for (const Tensor& value : terms) {
    const std::vector<int64_t> numbers = axes.of_rank(value.dim());
    int64_t count = 1;
    for (const int64_t axis : numbers) count *= value.size(axis);
    result.sums.push_back(at::sum(value, numbers, /*keepdim=*/false, value.scalar_type()));
    result.count += count;
  }
  return result;
}

}  // namespace tutti
