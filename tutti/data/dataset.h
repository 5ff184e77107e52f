#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
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
// into them in place. A write is noticed at the next use of the memory (failed_precondition). Errors: arguments are
// checked where the operation is called. What a function of map() throws reaches the consumer unchanged, also through
// prefetch(); the iterator is then to be dropped.
template <class T>
class Dataset {
 public:
  using value_type = T;

  explicit Dataset(graph::NodePtr node) : node_(std::move(node)) {}

  // Applies f to each element, in order. f takes the parts of a tuple or pair as arguments, any other T as one; it is
  // called as a const object, without gradients, on the consumer's thread, that of a prefetch() further down, or on
  // options.num_parallel_calls threads at once.
  template <class F>
  auto map(F f, const MapOptions& options = {}) const;
  // The elements of the datasets that f returns, one dataset after the other; or of several in turn.
  template <class F>
  auto flat_map(F f) const {
    return interleave(std::move(f), {.cycle_length = 1});
  }
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

  // Stacks elements along a new first axis. Throws (when iterated): invalid_argument for unequal shapes or dtypes.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const {
    return with(graph::batch(node_, size, options));
  }
  // The same of elements of unequal sizes: each axis is padded to the longest of the batch.
  Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const {
    return with(graph::padded_batch(node_, size, options));
  }
  // Joins the rows of batches and cuts them again, into batches of these sizes, used cyclically. TF: RebatchDatasetV2.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const {
    return with(graph::rebatch(node_, std::move(sizes), options));
  }
  Dataset rebatch(int64_t size, const BatchOptions& options = {}) const { return rebatch(std::vector{size}, options); }
  // The rows of each element, one by one.
  Dataset unbatch() const { return with(graph::unbatch(node_)); }

  // Draws each element at random from a buffer of the next buffer_size ones.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const {
    return with(graph::shuffle(node_, buffer_size, options));
  }
  Dataset repeat(int64_t count = kInfinite) const { return with(graph::repeat(node_, count)); }
  // Keeps the elements in memory, copied, once a pass came to its end; a pass that was left early keeps nothing.
  Dataset cache() const { return with(graph::cache(node_)); }
  // A thread per iterator computes up to buffer_size elements ahead.
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

  // The number of elements, kInfinite or kUnknown, without running anything.
  int64_t cardinality() const { return node_->cardinality; }

  DatasetIterator<T> begin() const { return DatasetIterator<T>(node_); }
  std::default_sentinel_t end() const { return {}; }

  const graph::NodePtr& node() const { return node_; }

 private:
  static Dataset with(graph::NodePtr node) { return Dataset(std::move(node)); }
  template <class F>
  static graph::Predicate predicate(F f);

  graph::NodePtr node_;
};

namespace dataset_internal {

template <class F, class T>
inline constexpr bool takes_parts = false;
template <class F, template <class...> class Tuple, class... Parts>
inline constexpr bool takes_parts<F, Tuple<Parts...>> =
    structure::TupleLike<Tuple<Parts...>>&& std::invocable<const F&, Parts...>;

template <class F, class T>
decltype(auto) call_with_parts(const F& f, T element) {
  if constexpr (takes_parts<F, T>) {
    return std::apply(f, std::move(element));
  } else {
    static_assert(std::invocable<const F&, T>,
                  "map(f): f takes the parts of a tuple as arguments, any other element as one, and is not `mutable`");
    return f(std::move(element));
  }
}

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

}  // namespace dataset_internal

template <class T>
template <class F>
auto Dataset<T>::map(F f, const MapOptions& options) const {
  using Result = std::decay_t<decltype(dataset_internal::call_with_parts(f, std::declval<T>()))>;
  const auto function = [f = std::move(f)](graph::Element element) {
    return to_element<Result>(dataset_internal::call_with_parts(f, from_element<T>(std::move(element))));
  };
  return Dataset<Result>(options.num_parallel_calls == 0
                             ? graph::map(node_, function)
                             : graph::parallel_map(node_, function, options.num_parallel_calls));
}

template <class T>
template <class F>
auto Dataset<T>::interleave(F f, const InterleaveOptions& options) const {
  using Result = std::decay_t<decltype(dataset_internal::call_with_parts(f, std::declval<T>()))>;
  const auto function = [f = std::move(f)](graph::Element element) {
    return dataset_internal::call_with_parts(f, from_element<T>(std::move(element))).node();
  };
  return Dataset<typename Result::value_type>(graph::interleave(node_, function, options));
}

template <class T>
template <class F>
graph::Predicate Dataset<T>::predicate(F f) {
  return [f = std::move(f)](const graph::Element& element) -> bool {
    return dataset_internal::call_with_parts(f, from_element<T>(element));
  };
}

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
// for each pass. The cardinality is unknown.
template <class Make>
auto from_generator(Make make) {
  using T = typename std::invoke_result_t<std::invoke_result_t<const Make&>>::value_type;
  return Dataset<T>(graph::from_generator([make = std::move(make)]() -> graph::Generator {
    return [generator = make()]() mutable -> std::optional<graph::Element> {
      auto element = generator();
      return element ? std::optional(to_element<T>(*std::move(element))) : std::nullopt;
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

template <class T>
inline constexpr bool is_dataset = false;
template <class T>
inline constexpr bool is_dataset<Dataset<T>> = true;

}  // namespace tutti::data
