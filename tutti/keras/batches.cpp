#include "tutti/keras/batches.h"

#include <ATen/ops/randperm.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/shape.h"

namespace tutti::keras {
namespace {

Tensor rows(const Tensor& tensor, const Tensor& order, int64_t begin, int64_t end) {
  if (!tensor.defined()) return tensor;
  return order.defined() ? tensor.index_select(0, order.slice(0, begin, end)) : tensor.slice(0, begin, end);
}

void check_rows(const Tensor& tensor, const char* name, int64_t num_samples) {
  if (!tensor.defined()) return;
  if (tensor.dim() == 0 || tensor.size(0) != num_samples)
    throw Error(ErrorCode::invalid_argument,
                str("batches of tensors: x has ", num_samples, " rows, but ", name, " has shape ",
                    to_string(tensor.sizes()), "; all need one first extent"));
}

}  // namespace

Batches Batches::from_tensors(const Tensor& x, const Tensor& y, const Tensor& sample_weight,
                              const TensorBatchesOptions& options) {
  if (!x.defined() || x.dim() == 0)
    throw Error(ErrorCode::invalid_argument, "batches of tensors: x has no batch dimension");
  if (options.batch_size <= 0)
    throw Error(ErrorCode::invalid_argument,
                str("batches of tensors: batch_size is ", options.batch_size, "; it must be positive"));
  const int64_t num_samples = x.size(0);
  check_rows(y, "y", num_samples);
  check_rows(sample_weight, "sample_weight", num_samples);

  return Batches([=](const Strategy& strategy) -> Next {
    const Tensor order =
        options.shuffle ? at::randperm(num_samples, at::TensorOptions(at::kLong).device(x.device())) : Tensor();
    return [=, &strategy, begin = int64_t{0}]() mutable -> std::optional<PerReplica<Batch>> {
      if (begin >= num_samples) return std::nullopt;
      const int64_t end = std::min(begin + options.batch_size, num_samples);
      const Batch batch{rows(x, order, begin, end), rows(y, order, begin, end), rows(sample_weight, order, begin, end)};
      begin = end;
      return divide(batch, strategy);
    };
  });
}

PerReplica<Batch> Batches::divide(const Batch& batch, const Strategy& strategy) {
  const auto to_shards = [](const auto& tuples) {
    std::vector<Batch> shards;
    for (const auto& tuple : tuples) shards.push_back(std::make_from_tuple<Batch>(tuple));
    return PerReplica<Batch>(std::move(shards));
  };
  if (!batch.y.defined()) return to_shards(strategy.distribute(std::tuple(batch.x)));
  if (!batch.sample_weight.defined()) return to_shards(strategy.distribute(std::tuple(batch.x, batch.y)));
  return to_shards(strategy.distribute(std::tuple(batch.x, batch.y, batch.sample_weight)));
}

}  // namespace tutti::keras
