#pragma once

#include <functional>
#include <optional>

#include "tutti/data/graph/node.h"
#include "tutti/data/options.h"

// The operations of a dataset's graph, one source file each. Dataset<T> gives them types; the rules are documented
// there. All check their arguments at once and throw invalid_argument.
namespace tutti::data::graph {

using MapFunction = std::function<Element(Element)>;
using FlatMapFunction = std::function<NodePtr(Element)>;
using Predicate = std::function<bool(const Element&)>;
using Generator = std::function<std::optional<Element>()>;

NodePtr from_tensors(const std::vector<Leaf>& leaves, Keys keys);
NodePtr from_tensor_slices(const std::vector<Leaf>& columns, Keys keys);
NodePtr from_generator(std::function<Generator()> make);
NodePtr range(int64_t start, int64_t stop, int64_t step);

NodePtr map(const NodePtr& input, MapFunction function);
NodePtr parallel_map(const NodePtr& input, MapFunction function, int num_threads);
NodePtr interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options);
NodePtr filter(const NodePtr& input, Predicate predicate);
NodePtr take_while(const NodePtr& input, Predicate predicate);
NodePtr batch(const NodePtr& input, int64_t size, const BatchOptions& options);
NodePtr padded_batch(const NodePtr& input, int64_t size, const PaddedBatchOptions& options);
NodePtr rebatch(const NodePtr& input, std::vector<int64_t> sizes, const BatchOptions& options);
NodePtr rebatch_legacy(const NodePtr& input, int num_replicas);
NodePtr unbatch(const NodePtr& input);
NodePtr shuffle(const NodePtr& input, int64_t buffer_size, const ShuffleOptions& options);
NodePtr repeat(const NodePtr& input, int64_t count);
NodePtr cache(const NodePtr& input);
NodePtr prefetch(const NodePtr& input, int64_t buffer_size);
NodePtr take(const NodePtr& input, int64_t count);
NodePtr skip(const NodePtr& input, int64_t count);
NodePtr shard(const NodePtr& input, int64_t num_shards, int64_t index);
// As auto-sharding wants it: iterating throws invalid_argument unless each shard has an element; a shard that has none
// is empty. TF: ShardDataset with require_non_empty.
NodePtr non_empty_shard(const NodePtr& input, int64_t num_shards, int64_t index);
NodePtr zip(const std::vector<NodePtr>& inputs);
NodePtr concatenate(const NodePtr& first, const NodePtr& second);
NodePtr enumerate(const NodePtr& input, int64_t start);
NodePtr with_options(const NodePtr& input, const DatasetOptions& options);

}  // namespace tutti::data::graph
