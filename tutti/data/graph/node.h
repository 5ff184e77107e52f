#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "tutti/data/auto_shard_policy.h"
#include "tutti/data/graph/element.h"
#include "tutti/data/graph/state.h"

namespace tutti::data {

// What cardinality() says instead of a count. TF: tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;

// shard(kShardHint, kShardHint) stands for the shard of an input pipeline, under AutoShardPolicy::hint.
// TF: tf.data.experimental.SHARD_HINT.
inline constexpr int64_t kShardHint = -1;

}  // namespace tutti::data

namespace tutti::data::graph {

// What Node::batch_size says instead of a size: elements known to hold a scalar.
inline constexpr int64_t kNotBatched = -1;

// What auto-sharding must tell an operation from others by.
enum class Role {
  other,
  shuffle,     // changes the order alone, and that at random
  rebatch,     // cuts batches for replicas by given sizes
  shard_hint,  // stands for a shard to come
  trailing,    // gives the input's elements in their order: a shard by data goes before it
};

// One pass over a dataset. Used by one thread at a time; after an exception it is at its end or undefined: drop it.
class Iterator {
 public:
  virtual ~Iterator() = default;

  // Puts the next element in place, or returns false at the end, then and ever after.
  virtual bool next(Element& element) = 0;

  // Writes where the pass is, and restores it in an iterator that the same node began and nobody used: next() then goes
  // on where it would have. Each reads what the other writes, in the same order, the inputs' state included.
  // Throws: failed_precondition from a source that cannot; data_loss for a state that is not this node's.
  virtual void save(StateWriter& state);
  virtual void restore(StateReader& state);
};

struct Node;
using NodePtr = std::shared_ptr<const Node>;

// One operation of a dataset's graph, immutable.
struct Node {
  // What the operation reads, and the same operation on other inputs, as many: with the state that its passes share, as
  // the order of a shuffle, but for kept elements. A source has no inputs.
  std::vector<NodePtr> inputs;
  std::function<NodePtr(const std::vector<NodePtr>& inputs)> rebuild;

  Role role = Role::other;

  // For a source of elements in memory: all of them, in order. An element of this table is saved as its row.
  std::shared_ptr<const Table> table;

  // For a reader of files: the same reader of the files index, index + num_shards, …
  // Iterating throws invalid_argument for fewer files than shards; but a shard without any is empty.
  std::function<NodePtr(int64_t num_shards, int64_t index)> shard_files;

  // For an operation whose function makes a dataset of each element of its input: that function.
  std::function<NodePtr(Element)> make_dataset;

  // How many elements one pass has, or kInfinite or kUnknown.
  int64_t cardinality = kUnknown;

  // How many rows a full element has, as far as the graph shows without being run, or kUnknown or kNotBatched.
  // TF: compute_batch_size.
  int64_t batch_size = kUnknown;
  // The same of the rows of an element.
  int64_t batch_size_of_rows = kUnknown;

  // Whether batches are known to differ in more than their number of rows: a batch made up for a replica that has none
  // is then empty in every axis, as TensorFlow's is, which knows no size for them.
  bool row_sizes_vary = false;

  // Whether all elements have one shape, the last one too; a function of map is taken to keep it. A step that lacks an
  // element for a replica is then left out, as drop_remainder asks. TF: static shapes.
  bool uniform = false;

  AutoShardPolicy auto_shard_policy = AutoShardPolicy::auto_;

  // Begins a pass. The iterator owns all that it needs. Nodes that wait for user code give up with `cancelled` once
  // `stop` is requested, so that a prefetching thread can be joined.
  std::function<std::unique_ptr<Iterator>(const std::stop_token& stop)> iterate;
};

// An op on this input that keeps its properties, and the same op on another.
Node after(const NodePtr& input, std::function<NodePtr(const NodePtr& input)> rebuild);

// An op on these inputs with what they have in common: batch sizes that differ are kUnknown. Sets no cardinality.
// Throws: invalid_argument for different policies.
Node after_all(const std::vector<NodePtr>& inputs, std::function<NodePtr(const std::vector<NodePtr>& inputs)> rebuild);

// One pass as a consumer sees it: dataset code runs in a PipelineScope, whatever state the caller's thread is in.
class Pass {
 public:
  explicit Pass(const NodePtr& node);
  bool next(Element& element);

 private:
  std::unique_ptr<Iterator> iterator_;
};

}  // namespace tutti::data::graph
