#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tutti/data/auto_shard_policy.h"
#include "tutti/data/graph/context.h"
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

// One pass over a dataset: a sequence of places, each with an element or an error. Used by one thread at a time. An
// error takes the place of the element that failed, and nothing else is lost: after an exception next() goes on behind
// it, or is at the end, and it never throws for the same element again (ignore_errors goes on calling). So
// - what counts its input's elements (zip, enumerate, take, skip, shard, a window's shift) counts an error as one;
// - what collects them (batch, rebatch, window, shuffle, cache, …) lets an error through at once, and goes on with what
//   it has collected;
// - what takes elements in turn (interleave) lets it through and goes on with the same dataset;
// - who passes over elements passes over their errors (PassOver).
class Iterator {
 public:
  virtual ~Iterator() = default;

  // Puts the next element in place, or returns false at the end, then and ever after.
  virtual bool next(Element& element) = 0;

  // Writes where the pass is, and restores it in an iterator that the same node began and nobody used: next() then goes
  // on where it would have. Each begins with state.op() and reads what the other writes, in the same order: the inputs'
  // state before elements of one's own, which may be rows of tables that it has. What has a thread begins it with the
  // first next(), and pauses it while it saves state.graph() of the input and the input's pass.
  // Throws: failed_precondition for a state that is not this node's, data_loss for a damaged one; what user code
  // throws.
  virtual void save(StateWriter& state) = 0;
  virtual void restore(StateReader& state) = 0;
};

// What the passes over a dataset have in common beside its graph, as what a cache holds. It is saved with every pass,
// and restored as Iterator says.
class SharedState {
 public:
  virtual ~SharedState() = default;
  // A new iterator takes what it needs for all of its passes.
  virtual void begin(PassNumbers&) {}
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;
};

// One operation of a dataset's graph, immutable.
struct Node {
  // What the operation reads, and the same operation on other inputs, as many: with the state that its passes share, as
  // the order of a shuffle, but for kept elements. A source has no inputs.
  std::vector<NodePtr> inputs;
  std::function<NodePtr(const std::vector<NodePtr>& inputs)> rebuild;

  Role role = Role::other;

  // For a source of elements in memory: all of them, in order. An element of this table is saved as its row.
  std::shared_ptr<const Table> table;

  // For elements that were kept (from_elements): all of them, in order. Such a dataset can be saved inside an element.
  std::shared_ptr<const std::vector<Element>> elements;
  // Null where passes have nothing in common.
  std::shared_ptr<SharedState> shared;

  // For a reader of files: their names.
  std::vector<std::filesystem::path> files;
  // The same reader of the files index, index + num_shards, …
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
  // context.stop is requested, so that a prefetching thread can be joined.
  std::function<std::unique_ptr<Iterator>(const Context& context)> iterate;
};

// An op on this input that keeps its properties, and the same op on another.
Node after(const NodePtr& input, std::function<NodePtr(const NodePtr& input)> rebuild);

// An op on these inputs with what they have in common: batch sizes that differ are kUnknown. Sets no cardinality.
// Throws: invalid_argument for different policies.
Node after_all(const std::vector<NodePtr>& inputs, std::function<NodePtr(const std::vector<NodePtr>& inputs)> rebuild);

// The operations of a graph, each once, in an order that only the graph decides.
std::vector<const Node*> nodes_of(const Node& graph);

// How many elements the inputs have together.
int64_t total_cardinality(const std::vector<NodePtr>& inputs);

// One pass as a consumer sees it: dataset code runs in a PipelineScope, whatever state the caller's thread is in. It
// begins, as one more iterator of the dataset, with the first next(), or where it is saved; what throws there ends it.
class Pass {
 public:
  explicit Pass(NodePtr node) : node_(std::move(node)) {}
  bool next(Element& element);

  friend Tensor save_passes(std::span<Pass> passes, std::span<const Element> taken);
  friend struct RestoredPasses read_passes(std::span<Pass> passes, const Tensor& state, size_t max_taken);

 private:
  Pass(NodePtr node, std::unique_ptr<Iterator> iterator, std::shared_ptr<PassNumbers> numbers)
      : node_(std::move(node)), numbers_(std::move(numbers)), iterator_(std::move(iterator)), begun_(true) {}
  void begin();

  NodePtr node_;
  std::shared_ptr<PassNumbers> numbers_;
  std::unique_ptr<Iterator> iterator_;  // null before the pass has begun, and where that has thrown
  bool begun_ = false;
  bool failed_ = false;
};

struct RestoredPasses {
  std::vector<Element> taken;
  std::function<void()> go;  // takes the passes there, which must not have moved; does not throw
};

// Where passes are, uint8 [bytes], with the elements that were taken from them and count as still to come; and what is
// to be done to go there, of which nothing was done yet.
// Throws: failed_precondition when next() has thrown, and for a state of other datasets; data_loss for one that is
// damaged, or has more than max_taken elements.
Tensor save_passes(std::span<Pass> passes, std::span<const Element> taken);
RestoredPasses read_passes(std::span<Pass> passes, const Tensor& state, size_t max_taken);

}  // namespace tutti::data::graph
