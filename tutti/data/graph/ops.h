#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tutti/data/graph/node.h"
#include "tutti/data/options.h"

// The operations of a dataset's graph, one source file each. Dataset<T> gives them types; the rules are documented
// there. All check their arguments at once and throw invalid_argument.
namespace tutti::data::graph {

using MapFunction = std::function<Element(Element)>;
using FlatMapFunction = std::function<NodePtr(Element)>;
using Predicate = std::function<bool(const Element&)>;
using Generator = std::function<std::optional<Element>()>;
using ScanFunction = std::function<std::pair<Element, Element>(Element state, Element element)>;  // state, output
using NumberFunction = std::function<int64_t(const Element&)>;

struct GroupFunctions {
  NumberFunction key;
  std::function<NodePtr(int64_t key, NodePtr window)> reduce;
  std::function<int64_t(int64_t key)> window_size;
  // The operation that they are of, and its text: that with the arguments that they were made of.
  std::string op = "group_by_window";
  std::string text = op;
};

NodePtr from_tensors(const std::vector<Leaf>& leaves, Keys keys);
NodePtr from_tensor_slices(const std::vector<Leaf>& columns, Keys keys);
NodePtr from_generator(std::function<Generator()> make);
NodePtr range(int64_t start, int64_t stop, int64_t step);
// Elements that an operation kept of the dataset `of`, whose batch size and policy they have.
NodePtr from_elements(std::vector<Element> elements, const NodePtr& of = nullptr);

NodePtr map(const NodePtr& input, MapFunction function, std::optional<uint64_t> seed = {});
NodePtr parallel_map(const NodePtr& input, MapFunction function, const MapOptions& options, const char* op = "map");
NodePtr interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options,
                   const char* op = "interleave");
NodePtr parallel_interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options);
NodePtr scan(const NodePtr& input, Element initial, ScanFunction function);
NodePtr filter(const NodePtr& input, Predicate predicate);
NodePtr take_while(const NodePtr& input, Predicate predicate);
NodePtr batch(const NodePtr& input, int64_t size, const BatchOptions& options);
NodePtr padded_batch(const NodePtr& input, int64_t size, const PaddedBatchOptions& options);
NodePtr rebatch(const NodePtr& input, std::vector<int64_t> sizes, const RebatchOptions& options);
NodePtr rebatch_legacy(const NodePtr& input, int num_replicas);
NodePtr unbatch(const NodePtr& input);
NodePtr window(const NodePtr& input, int64_t size, const WindowOptions& options);
NodePtr group_by_window(const NodePtr& input, GroupFunctions functions);
NodePtr bucket_by_sequence_length(const NodePtr& input, NumberFunction length, std::vector<int64_t> boundaries,
                                  std::vector<int64_t> batch_sizes, const BucketOptions& options);
NodePtr unique(const NodePtr& input);
NodePtr shuffle(const NodePtr& input, int64_t buffer_size, const ShuffleOptions& options);
NodePtr repeat(const NodePtr& input, int64_t count);
NodePtr cache(const NodePtr& input);
NodePtr cache_file(const NodePtr& input, const std::filesystem::path& path);
NodePtr prefetch(const NodePtr& input, int64_t buffer_size);
NodePtr take(const NodePtr& input, int64_t count);
NodePtr skip(const NodePtr& input, int64_t count);
NodePtr shard(const NodePtr& input, int64_t num_shards, int64_t index);
// As auto-sharding wants it: iterating throws invalid_argument unless each shard has an element; a shard that has none
// is empty. TF: ShardDataset with require_non_empty.
NodePtr non_empty_shard(const NodePtr& input, int64_t num_shards, int64_t index);
NodePtr zip(const std::vector<NodePtr>& inputs);
NodePtr concatenate(const NodePtr& first, const NodePtr& second);
NodePtr choose_from(const std::vector<NodePtr>& inputs, const NodePtr& choices, const ChooseOptions& options);
NodePtr sample_from(const std::vector<NodePtr>& inputs, const SampleOptions& options);
NodePtr enumerate(const NodePtr& input, int64_t start);
NodePtr assert_cardinality(const NodePtr& input, int64_t count);
NodePtr ignore_errors(const NodePtr& input, const IgnoreErrorsOptions& options);
NodePtr with_options(const NodePtr& input, const DatasetOptions& options);
// The input, which functions of the library's own have made by this call. As functions cannot be compared, its text is
// what such datasets are told apart by.
NodePtr made_by(const NodePtr& input, std::string call);

// One pass, here and now.
void for_each(const NodePtr& input, const std::function<void(Element)>& function, const char* op);
Element single_element(const NodePtr& input);

}  // namespace tutti::data::graph
