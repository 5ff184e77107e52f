#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "tutti/data/auto_shard_policy.h"
#include "tutti/data/graph/element.h"

namespace tutti::data {

// What cardinality() says instead of a count. TF: tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;

}  // namespace tutti::data

namespace tutti::data::graph {

// What Node::batch_size says instead of a size: elements known to hold a scalar.
inline constexpr int64_t kNotBatched = -1;

// One pass over a dataset. Used by one thread at a time; after an exception it is at its end or undefined: drop it.
class Iterator {
 public:
  virtual ~Iterator() = default;

  // Puts the next element in place, or returns false at the end, then and ever after.
  virtual bool next(Element& element) = 0;
};

// One operation of a dataset's graph, immutable. An op that keeps its input's properties starts from a copy of the
// input.
struct Node {
  // How many elements one pass has, or kInfinite or kUnknown.
  int64_t cardinality = kUnknown;

  // How many rows a full element has, as far as the graph shows without being run, or kUnknown or kNotBatched.
  // TF: compute_batch_size.
  int64_t batch_size = kUnknown;

  // Whether batches are known to differ in more than their number of rows: a batch made up for a replica that has none
  // is then empty in every axis, as TensorFlow's is, which knows no size for them.
  bool row_sizes_vary = false;

  AutoShardPolicy auto_shard_policy = AutoShardPolicy::auto_;

  // Begins a pass. The iterator owns all that it needs. Nodes that wait for user code give up with `cancelled` once
  // `stop` is requested, so that a prefetching thread can be joined.
  std::function<std::unique_ptr<Iterator>(const std::stop_token& stop)> iterate;
};

using NodePtr = std::shared_ptr<const Node>;

// What an op with several inputs inherits. Batch sizes that differ are kUnknown.
// Throws: invalid_argument for different policies.
int64_t common_batch_size(const std::vector<NodePtr>& inputs);
AutoShardPolicy common_policy(const std::vector<NodePtr>& inputs);

// One pass as a consumer sees it: dataset code runs in a PipelineScope, whatever state the caller's thread is in.
class Pass {
 public:
  explicit Pass(const NodePtr& node);
  bool next(Element& element);

 private:
  std::unique_ptr<Iterator> iterator_;
};

}  // namespace tutti::data::graph
