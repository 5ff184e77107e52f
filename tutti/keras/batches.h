#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/data/dataset.h"
#include "tutti/distribute/strategy.h"

namespace tutti::keras {

// Samples and what is known about them. Shapes: x [N, ...], y [N, ...], sample_weight undefined (all samples count
// alike) or [N].
struct Batch {
  Tensor x;
  Tensor y = {};
  Tensor sample_weight = {};

  int64_t size() const { return x.size(0); }
};

struct TensorBatchesOptions {
  int64_t batch_size = 32;
  bool shuffle = false;  // in a new order in every pass, from LibTorch's default generator
};

// What fit, evaluate and predict read: a source of global batches that can be read any number of times, and that a
// strategy divides among its replicas.
class Batches {
 public:
  // Returns the replicas' shards of each global batch of one pass, one batch per call, then nullopt.
  using Next = std::function<std::optional<PerReplica<Batch>>()>;

  // A dataset of batches (x, y) or (x, y, sample_weight), or for predict (x).
  template <class... Tensors>
  Batches(const data::Dataset<std::tuple<Tensors...>>& dataset)
      : open_([dataset](const Strategy& strategy) -> Next {
          auto steps =
              std::make_shared<data::DistributedIterator<std::tuple<Tensors...>>>(strategy.distribute(dataset).begin());
          return [steps]() -> std::optional<PerReplica<Batch>> {
            const auto step = steps->next_as_optional();
            if (!step) return std::nullopt;
            std::vector<Batch> shards;
            for (const auto& shard : *step) shards.push_back(std::make_from_tuple<Batch>(shard));
            return PerReplica<Batch>(std::move(shards));
          };
        }) {}

  // Any other range of such tuples. It is kept by value and read from its begin() in each pass.
  template <std::ranges::input_range Range>
  requires requires { std::tuple_size<std::ranges::range_value_t<Range>>::value; }
  Batches(Range range)
      : open_([range = std::make_shared<const Range>(std::move(range))](const Strategy& strategy) -> Next {
          auto position = std::make_shared<decltype(std::ranges::begin(*range))>(std::ranges::begin(*range));
          return [range, position, &strategy]() -> std::optional<PerReplica<Batch>> {
            if (*position == std::ranges::end(*range)) return std::nullopt;
            auto shards = divide(std::make_from_tuple<Batch>(**position), strategy);
            ++*position;
            return shards;
          };
        }) {}

  // Consecutive slices of whole tensors; the last one may be shorter. y and sample_weight may be undefined.
  // Throws: invalid_argument unless all have one first extent and batch_size is positive.
  static Batches from_tensors(const Tensor& x, const Tensor& y, const Tensor& sample_weight,
                              const TensorBatchesOptions& options);

  // Starts a pass for the replicas of a strategy, which must outlive it.
  Next begin(const Strategy& strategy) const { return open_(strategy); }

 private:
  explicit Batches(std::function<Next(const Strategy&)> open) : open_(std::move(open)) {}

  static PerReplica<Batch> divide(const Batch& batch, const Strategy& strategy);

  std::function<Next(const Strategy&)> open_;
};

}  // namespace tutti::keras
