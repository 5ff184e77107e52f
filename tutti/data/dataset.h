#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/data/dataset_iterator.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/options.h"
#include "tutti/data/structure.h"

namespace tutti::data {

// A sequence of elements of type T (see structure.h), described and not yet computed. A value: copying is cheap, and
// every operation returns a new dataset. It can be iterated any number of times, by several threads at once. TF:
// tf.data.Dataset.
//
// Elements, and batches of consecutive rows, may be views of the tensors that the dataset was made from: don't write
// into them in place. A write is noticed at the next use of the memory (failed_precondition).
//
// Functions are called as const objects and without gradients, and get the parts of a tuple or pair as arguments, any
// other T as one. They run on the consumer's thread, that of a prefetch() further down, or on num_parallel_calls
// threads at once.
//
// Errors: arguments are checked where the operation is called. What a function throws reaches the consumer, through any
// threads and with its type. Its text names the operation and the element's index there ("map: element 3: …") if it is
// an Error, a c10::Error or one of <stdexcept>; for another type a warning does. It takes the place of one element, and
// nothing else is lost: zip, shard, take and the like count it as one, batches go on with what they have
// (docs/data.md). The iterator may be dropped, which ends its threads, or goes on with ++; ignore_errors() does so.
template <class T>
class Dataset {
 public:
  using value_type = T;

  Dataset() : node_(graph::from_elements({})) {}  // no elements
  explicit Dataset(graph::NodePtr node) : node_(std::move(node)) {}

  // f of each element, in order.
  template <class F>
  auto map(F f, const MapOptions& options = {}) const;
  // The elements of the datasets that f returns, one dataset after the other; or of several in turn.
  template <class F>
  auto flat_map(F f) const;
  template <class F>
  auto interleave(F f, const InterleaveOptions& options = {}) const;
  // The elements for which f is true; those before the first for which it is not.
  template <class F>
  Dataset filter(F f) const {
    return with(graph::filter(node_, predicate(std::move(f))));
  }
  template <class F>
  Dataset take_while(F f) const {
    return with(graph::take_while(node_, predicate(std::move(f))));
  }

  // (state, output) = f(state, element), from the initial state on; gives the outputs. The state is a structure.
  template <class S, class F>
  auto scan(S initial, F f) const;
  // state = f(state, element), from the initial state on; returns the last state, of any type. Iterates here and now.
  template <class S, class F>
  S reduce(S initial, F f) const;
  // The only element. Throws: invalid_argument if there is none, or another.
  T get_single_element() const { return from_element<T>(graph::single_element(node_)); }

  // Stacks elements along a new first axis. Throws (when iterated): invalid_argument for unequal shapes or dtypes.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const {
    return with(graph::batch(node_, size, options));
  }
  // The same of elements of unequal sizes: each axis is padded to the longest of the batch, or to padded_shapes.
  Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const {
    return with(graph::padded_batch(node_, size, options));
  }
  // Joins the rows of batches and cuts them again, into batches of these sizes, used cyclically. TF: RebatchDatasetV2.
  Dataset rebatch(std::vector<int64_t> sizes, const RebatchOptions& options = {}) const {
    return with(graph::rebatch(node_, std::move(sizes), options));
  }
  Dataset rebatch(int64_t size, const RebatchOptions& options = {}) const {
    return rebatch(std::vector{size}, options);
  }
  // The rows of each element, one by one.
  Dataset unbatch() const { return with(graph::unbatch(node_)); }

  // Datasets of `size` elements each (windows), which flat_map or interleave joins again.
  Dataset<Dataset<T>> window(int64_t size, const WindowOptions& options = {}) const {
    return Dataset<Dataset<T>>(graph::window(node_, size, options));
  }
  // reduce(key, window) for windows of elements that have the same key(element), an integer; joins the datasets that it
  // returns. A window is reduced once it has window_size elements, or window_size(key); those that are left at the end,
  // in the order of their keys.
  template <class Key, class Reduce>
  auto group_by_window(Key key, Reduce reduce, int64_t window_size) const;
  template <class Key, class Reduce, std::invocable<int64_t> WindowSize>
  auto group_by_window(Key key, Reduce reduce, WindowSize window_size) const;
  // Padded batches of elements of like length(element), an integer: bucket i has those of boundaries[i - 1] <= length <
  // boundaries[i], and batches of batch_sizes[i], of which there is one more.
  template <class Length>
  Dataset bucket_by_sequence_length(Length length, const std::vector<int64_t>& boundaries,
                                    const std::vector<int64_t>& batch_sizes, const BucketOptions& options = {}) const {
    return with(
        graph::bucket_by_sequence_length(node_, number<Length>(std::move(length)), boundaries, batch_sizes, options));
  }
  // Leaves out elements that equal an earlier one of the pass bit for bit. Each distinct one is kept in memory.
  Dataset unique() const { return with(graph::unique(node_)); }

  // Draws each element at random from a buffer of the next buffer_size ones.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const {
    return with(graph::shuffle(node_, buffer_size, options));
  }
  Dataset repeat(int64_t count = kInfinite) const { return with(graph::repeat(node_, count)); }
  // Keeps the elements in memory, copied, once a pass came to its end; a pass that was left early keeps nothing.
  Dataset cache() const { return with(graph::cache(node_)); }
  // Keeps the elements in a file, for other programs too: the first pass that comes to its end writes it (beside it,
  // then renames), and while it is there, passes read it; remove it when the dataset changes. Tensors come back in host
  // memory. Throws (when iterated): data_loss for a file that is damaged, failed_precondition for one of another
  // dataset; unavailable.
  Dataset cache(const std::filesystem::path& file) const { return with(graph::cache_file(node_, file)); }
  // A thread per iterator computes up to buffer_size elements ahead. kAutotune: at first one, and twice as many
  // whenever the consumer finds a buffer empty that had been full, as long as they take less than 256 MB.
  Dataset prefetch(int64_t buffer_size) const { return with(graph::prefetch(node_, buffer_size)); }

  Dataset take(int64_t count) const { return with(graph::take(node_, count)); }
  Dataset skip(int64_t count) const { return with(graph::skip(node_, count)); }
  // Elements index, index + num_shards, index + 2 num_shards, … Both kShardHint: what AutoShardPolicy::hint will say.
  Dataset shard(int64_t num_shards, int64_t index) const { return with(graph::shard(node_, num_shards, index)); }
  Dataset concatenate(const Dataset& other) const { return with(graph::concatenate(node_, other.node_)); }
  // Pairs (index, element); the index is an int64 scalar.
  Dataset<std::tuple<Tensor, T>> enumerate(int64_t start = 0) const {
    return Dataset<std::tuple<Tensor, T>>(graph::enumerate(node_, start));
  }
  Dataset with_options(const DatasetOptions& options) const { return with(graph::with_options(node_, options)); }

  // Leaves out elements that throw, batches if it stands behind batch().
  Dataset ignore_errors(const IgnoreErrorsOptions& options = {}) const {
    return with(graph::ignore_errors(node_, options));
  }
  // Says how many elements there are, where cardinality() doesn't know. Throws (when iterated): failed_precondition if
  // there are more or fewer.
  Dataset assert_cardinality(int64_t count) const { return with(graph::assert_cardinality(node_, count)); }
  // f(*this): for a chain of operations in a function of one's own.
  template <class F>
  auto apply(const F& f) const {
    return f(*this);
  }

  // The number of elements, kInfinite or kUnknown, without running anything.
  int64_t cardinality() const { return node_->cardinality; }

  DatasetIterator<T> begin() const { return DatasetIterator<T>(node_); }
  std::default_sentinel_t end() const { return {}; }

  const graph::NodePtr& node() const { return node_; }

 private:
  static Dataset with(graph::NodePtr node) { return Dataset(std::move(node)); }
  template <class F>
  static graph::Predicate predicate(F f);
  template <class F>
  static graph::NumberFunction number(F f);

  graph::NodePtr node_;
};

namespace dataset_internal {

template <class... Parts>
struct Joined {
  using type = std::tuple<Parts...>;
};
template <class T>
struct Joined<T> {
  using type = T;
};

template <class T>
Dataset<T> dataset_of(T element, graph::NodePtr (*source)(const std::vector<graph::Leaf>&, graph::Keys)) {
  graph::Element flat = to_element(std::move(element));
  const graph::Keys keys = flat.keys();
  return Dataset<T>(source(std::move(flat).leaves(), keys));
}

template <class T>
std::vector<graph::NodePtr> nodes_of(const std::vector<Dataset<T>>& datasets) {
  std::vector<graph::NodePtr> nodes;
  for (const Dataset<T>& dataset : datasets) nodes.push_back(dataset.node());
  return nodes;
}

}  // namespace dataset_internal

// One element: the argument, or the tuple of the arguments.
template <class... Parts>
auto from_tensors(Parts... parts) {
  using T = typename dataset_internal::Joined<Parts...>::type;
  return dataset_internal::dataset_of<T>(T(std::move(parts)...), graph::from_tensors);
}

// One element per row of the tensors, which all have the same number of rows; views where they are contiguous.
template <class... Parts>
auto from_tensor_slices(Parts... parts) {
  using T = typename dataset_internal::Joined<Parts...>::type;
  return dataset_internal::dataset_of<T>(T(std::move(parts)...), graph::from_tensor_slices);
}

// What a generator gives until it gives nothing: make() returns a function that returns std::optional<T>, and is called
// for each pass. The cardinality is unknown. Restoring an iterator makes the elements that had come again, and drops
// them: failed_precondition if there are fewer.
template <class Make>
auto from_generator(Make make) {
  using T = typename std::invoke_result_t<std::invoke_result_t<const Make&>>::value_type;
  return Dataset<T>(graph::from_generator([make = std::move(make)]() -> graph::Generator {
    return [generator = make()]() mutable -> std::optional<graph::Element> {
      auto element = generator();
      return element ? std::optional(graph::with_values(to_element<T>(*std::move(element)))) : std::nullopt;
    };
  }));
}

// int64 scalars: 0, 1, … stop - 1, or start, start + step, … before stop.
inline Dataset<Tensor> range(int64_t stop) { return Dataset<Tensor>(graph::range(0, stop, 1)); }
inline Dataset<Tensor> range(int64_t start, int64_t stop, int64_t step = 1) {
  return Dataset<Tensor>(graph::range(start, stop, step));
}

// Tuples of one element of each dataset, until the first one ends.
template <class... Ts>
Dataset<std::tuple<Ts...>> zip(const Dataset<Ts>&... datasets) {
  return Dataset<std::tuple<Ts...>>(graph::zip({datasets.node()...}));
}

// The next element of datasets[i] for each integer scalar i that `choices` gives.
template <class T>
Dataset<T> choose_from_datasets(const std::vector<Dataset<T>>& datasets, const Dataset<Tensor>& choices,
                                const ChooseOptions& options = {}) {
  return Dataset<T>(graph::choose_from(dataset_internal::nodes_of(datasets), choices.node(), options));
}

// The next element of a dataset drawn at random, by the weights.
template <class T>
Dataset<T> sample_from_datasets(const std::vector<Dataset<T>>& datasets, const SampleOptions& options = {}) {
  return Dataset<T>(graph::sample_from(dataset_internal::nodes_of(datasets), options));
}

}  // namespace tutti::data

#include "tutti/data/dataset_functions.h"
