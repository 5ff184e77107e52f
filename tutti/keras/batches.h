#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/core/structure.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/data/dataset.h"
#include "tutti/data/input_context.h"
#include "tutti/distribute/strategy.h"

namespace tutti::keras {

// One or several tensors, with their names if they come from a std::map.
struct Tensors {
  std::vector<Tensor> values = {};
  std::vector<std::string> names = {};

  Tensors() = default;
  Tensors(const Tensor& tensor);  // none if it is undefined
  Tensors(std::vector<Tensor> tensors) : values(std::move(tensors)) {}
  Tensors(std::initializer_list<Tensor> tensors) : Tensors(std::vector<Tensor>(tensors)) {}
  Tensors(const std::map<std::string, Tensor>& tensors);

  bool empty() const { return values.empty(); }
  size_t size() const { return values.size(); }
  const Tensor& operator[](size_t i) const { return values[i]; }
  auto parts() { return std::tie(values, names); }
  auto parts() const { return std::tie(values, names); }
};

// Samples and what is known about them. Shapes: each x [N, ...], each y [N, ...], sample_weight none (all samples count
// alike), one for all outputs, or one for each output: [N] or [N, steps].
struct Batch {
  Tensors x;
  Tensors y = {};
  Tensors sample_weight = {};

  int64_t size() const { return x[0].size(0); }

  // The samples without their last part, and that part, a share of all of them. Throws: invalid_argument unless 0 <
  // share < 1 leaves both with samples.
  std::pair<Batch, Batch> split(double share) const;
};

struct TensorBatchesOptions {
  int64_t batch_size = 32;
  bool shuffle = false;  // in a new order in every pass, from LibTorch's default generator
};

// What fit, evaluate and predict read: a source of global batches that can be read any number of times, and that a
// strategy divides among its replicas. Batches are tuples (x, y) or (x, y, sample_weight), or for predict (x), where
// each part is a Tensor, a structure of some (a tuple, a struct: one tensor for each input or output), or a
// std::map<std::string, …> by the names of the model's inputs and outputs.
class Batches {
 public:
  // Returns the replicas' shards of each global batch of one pass, one batch per call, then nullopt.
  using Next = std::function<std::optional<PerReplica<Batch>>()>;

  template <class... Parts>
  Batches(const data::Dataset<std::tuple<Parts...>>& dataset)
      : open_([dataset](const Strategy& strategy) { return steps_of(strategy.distribute(dataset).begin()); }),
        num_batches_([dataset] { return dataset.cardinality(); }) {}

  // A dataset that is distributed already, to the strategy of the model.
  template <class... Parts>
  Batches(const data::DistributedDataset<std::tuple<Parts...>>& dataset)
      : open_([dataset](const Strategy&) { return steps_of(dataset.begin()); }) {}

  // Any other range of such tuples. It is kept by value and read from its begin() in each pass.
  template <std::ranges::input_range Range>
  requires(!std::convertible_to<Range, Tensors> &&
           requires { std::tuple_size<std::ranges::range_value_t<Range>>::value; }) Batches(Range range)
      : open_([range = std::make_shared<const Range>(std::move(range))](const Strategy& strategy) -> Next {
          auto position = std::make_shared<decltype(std::ranges::begin(*range))>(std::ranges::begin(*range));
          return [range, position, &strategy]() -> std::optional<PerReplica<Batch>> {
            if (*position == std::ranges::end(*range)) return std::nullopt;
            auto shards = divide(to_batch(**position), strategy);
            ++*position;
            return shards;
          };
        }) {}

  // Consecutive slices of whole tensors; the last one may be shorter. y and sample_weight may be empty.
  // Throws: invalid_argument unless all have one first extent and batch_size is positive.
  static Batches from_tensors(const Batch& samples, const TensorBatchesOptions& options);

  // Those that make(InputContext) returns, for each of the pipelines that a training has.
  static Batches of_pipelines(std::function<Batches(const data::InputContext&)> make);

  // Starts a pass for the replicas of a strategy, which must outlive it; or that of one of several pipelines.
  Next begin(const Strategy& strategy) const;
  Next begin(const Strategy& strategy, const data::InputContext& context) const {
    return pipelines_ ? pipelines_(context).open_(strategy) : open_(strategy);
  }

  // The number of batches of a pass; negative where only reading them tells.
  int64_t cardinality() const { return num_batches_ ? num_batches_() : -1; }

 private:
  explicit Batches(std::function<Next(const Strategy&)> open, std::function<int64_t()> num_batches)
      : open_(std::move(open)), num_batches_(std::move(num_batches)) {}

  template <class Part>
  static Tensors to_tensors(Part part) {
    if constexpr (structure::is_map<Part>) {
      return Tensors(part);
    } else {
      return Tensors(structure::flatten<Tensor>(std::move(part)).leaves);
    }
  }

  template <class... Parts>
  static Batch to_batch(const std::tuple<Parts...>& tuple) {
    static_assert(sizeof...(Parts) >= 1 && sizeof...(Parts) <= 3, "a batch is (x), (x, y) or (x, y, sample_weight)");
    return std::apply([](const auto&... parts) { return Batch{to_tensors(parts)...}; }, tuple);
  }

  template <class Iterator>
  static Next steps_of(Iterator begin) {
    auto steps = std::make_shared<Iterator>(std::move(begin));
    return [steps]() -> std::optional<PerReplica<Batch>> {
      const auto step = steps->next_as_optional();
      if (!step) return std::nullopt;
      std::vector<Batch> shards;
      for (const auto& shard : *step) shards.push_back(to_batch(shard));
      return PerReplica<Batch>(std::move(shards));
    };
  }

  static PerReplica<Batch> divide(const Batch& batch, const Strategy& strategy);

  std::function<Next(const Strategy&)> open_;
  std::function<int64_t()> num_batches_;
  std::function<Batches(const data::InputContext&)> pipelines_;  // instead of them
};

}  // namespace tutti::keras
