#include "tutti/keras/batches.h"

#include <ATen/ops/randperm.h>

#include <algorithm>
#include <cmath>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/shape.h"
#include "tutti/tensor/across_processes.h"

namespace tutti::keras {
namespace {

using Part = Tensors Batch::*;
constexpr std::pair<Part, const char*> kParts[] = {
    {&Batch::x, "x"}, {&Batch::y, "y"}, {&Batch::sample_weight, "sample_weight"}};

// Throws unless all tensors have as many rows as the first.
void check_rows(const Batch& batch) {
  if (batch.x.empty() || batch.x[0].dim() == 0)
    throw Error(ErrorCode::invalid_argument,
                "batches: an input is missing or a scalar; it must have a batch dimension; if the dataset gives single "
                "samples, batch it: dataset.batch(n)");
  for (const auto& [part, name] : kParts)
    for (const Tensor& tensor : (batch.*part).values)
      if (tensor.dim() == 0 || tensor.size(0) != batch.size())
        throw Error(ErrorCode::invalid_argument,
                    str("batches: x has ", batch.size(), " rows, but ", name, " has shape ", to_string(tensor.sizes()),
                        "; each must have one row for each sample"));
}

// The batch with each tensor changed.
template <class Change>
Batch changed(Batch batch, const Change& change) {
  for (const auto& [part, name] : kParts)
    for (Tensor& tensor : (batch.*part).values) tensor = change(tensor);
  return batch;
}

}  // namespace

Tensors::Tensors(const Tensor& tensor) {
  if (tensor.defined()) values.push_back(tensor);
}

Tensors::Tensors(const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
    values.push_back(tensor);
  }
}

// Keras's rule for the number of samples.
std::pair<Batch, Batch> Batch::split(double share) const {
  check_rows(*this);
  const auto at = static_cast<int64_t>(std::floor(static_cast<double>(size()) * (1 - share)));
  if (!(share > 0 && share < 1) || at == 0 || at == size())
    throw Error(ErrorCode::invalid_argument, str("fit: validation_split = ", share, " of ", size(),
                                                 " samples leaves none to train on or none to validate with"));
  return {changed(*this, [&](const Tensor& tensor) { return tensor.slice(0, 0, at); }),
          changed(*this, [&](const Tensor& tensor) { return tensor.slice(0, at); })};
}

Batches Batches::from_tensors(const Batch& samples, const TensorBatchesOptions& options) {
  check_rows(samples);
  if (options.batch_size <= 0)
    throw Error(ErrorCode::invalid_argument,
                str("batches of tensors: batch_size is ", options.batch_size, "; it must be positive"));
  const int64_t num_samples = samples.size();
  const auto open = [=](const Strategy& strategy) -> Next {
    Tensor order = options.shuffle
                       ? at::randperm(num_samples, at::TensorOptions(at::kLong).device(samples.x[0].device()))
                       : Tensor();
    if (order.defined() && strategy.processes())
      broadcast_tensors(*strategy.processes(), {&order, 1}, "order of the samples");
    return [=, &strategy, begin = int64_t{0}]() mutable -> std::optional<PerReplica<Batch>> {
      if (begin >= num_samples) return std::nullopt;
      const int64_t end = std::min(begin + options.batch_size, num_samples);
      const auto rows = [&](const Tensor& tensor) {
        return order.defined() ? tensor.index_select(0, order.slice(0, begin, end)) : tensor.slice(0, begin, end);
      };
      auto shards = divide(changed(samples, rows), strategy);
      begin = end;
      return shards;
    };
  };
  return Batches(open, [=] { return (num_samples + options.batch_size - 1) / options.batch_size; });
}

Batches Batches::of_pipelines(std::function<Batches(const data::InputContext&)> make) {
  Batches batches(nullptr, nullptr);
  batches.pipelines_ = std::move(make);
  return batches;
}

Batches::Next Batches::begin(const Strategy& strategy) const {
  return begin(strategy, {.num_replicas_in_sync = static_cast<int>(strategy.num_replicas_in_sync())});
}

PerReplica<Batch> Batches::divide(const Batch& batch, const Strategy& strategy) {
  check_rows(batch);
  std::vector<Batch> shards(static_cast<size_t>(strategy.num_local_replicas()), batch);
  for (const auto& [part, name] : kParts)
    for (size_t i = 0; i < (batch.*part).size(); ++i) {
      const PerReplica<Tensor> pieces = strategy.distribute((batch.*part)[i]);
      for (size_t replica = 0; replica < shards.size(); ++replica) (shards[replica].*part).values[i] = pieces[replica];
    }
  return PerReplica<Batch>(std::move(shards));
}

}  // namespace tutti::keras
