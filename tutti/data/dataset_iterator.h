#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/data/graph/node.h"
#include "tutti/data/structure.h"
#include "tutti/tensor/savable.h"

namespace tutti::data {

// An input iterator over one pass of a dataset; begin() of the dataset makes it, std::default_sentinel is its end. The
// pass begins, and its first element is computed, where the iterator is first compared, dereferenced or moved on: so
// what throws there belongs to that element, and an iterator that nobody looks at does nothing. Movable, used by one
// thread at a time, and independent of the dataset's lifetime. A part of a checkpoint: see save_state().
template <class T>
class DatasetIterator : public Savable {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  // place: what becomes of each element on the consumer's thread, also of one that is restored.
  explicit DatasetIterator(graph::NodePtr node, std::function<graph::Element(graph::Element)> place = {})
      : pass_(std::move(node)), place_(std::move(place)) {}

  // Throws: failed_precondition where the element has thrown: there is none; go on with ++.
  const T& operator*() const { return value(); }
  const T* operator->() const { return &value(); }

  // What it throws stands in the place of an element: the iterator is not at its end, and ++ goes on behind.
  DatasetIterator& operator++() {
    look();
    advance();
    return *this;
  }
  void operator++(int) { ++*this; }

  // The current element, moving on; at the end nothing, or out_of_range thrown. It computes no other element. Where
  // that one throws, the next call goes on behind it.
  std::optional<T> next_as_optional() {
    if (!begun_ || failed_) advance();
    begun_ = false;
    return std::exchange(value_, std::nullopt);
  }
  T next() {
    if (auto element = next_as_optional()) return *std::move(element);
    throw Error(ErrorCode::out_of_range, "DatasetIterator::next: the dataset is at its end");
  }

  friend bool operator==(const DatasetIterator& iterator, std::default_sentinel_t) {
    iterator.look();
    return !iterator.value_ && !iterator.failed_;
  }

  // Where the iterator is, uint8 [bytes], without computing an element; and back there, in any iterator of a dataset
  // that was built in the same way, also in another process: *iterator is again what it was, and each element that had
  // not yet come comes once, in the same order. Shuffling has its buffer and random state in it (and later passes of
  // that dataset go on with the seed and the number of the pass that it says), prefetch() and parallel maps what they
  // computed ahead, cache() what it holds. Rows of from_tensor_slices cost 24 bytes each, other elements what they
  // hold. What functions remember, or draw in a map() without a seed, is not part of it. A generator's elements are
  // made again and dropped.
  // Throws: failed_precondition after an error came out of the iterator, for a state of another dataset, or where a
  // generator now ends too early; data_loss for a damaged state: the iterator then stays where it is.
  Tensor save_state() {
    std::vector<graph::Element> current;
    if (value_) current.push_back(to_element(T(*value_)));
    return graph::save_passes({&pass_, 1}, current);
  }
  void restore_state(const Tensor& state) { read_state(state)(); }
  void visit_state(StateVisitor& visitor) override {
    visitor.prepared(
        "position", [this] { return save_state(); }, [this](const Tensor& state) { return read_state(state); });
  }

 private:
  // What goes there; nothing of it was done.
  std::function<void()> read_state(const Tensor& state) {
    graph::RestoredPasses restored = graph::read_passes({&pass_, 1}, state, /*max_taken=*/1);
    std::optional<T> value;
    if (!restored.taken.empty()) value = placed(std::move(restored.taken.front()));
    return [this, go = std::move(restored.go), value = std::move(value)] {
      go();
      value_ = value;
      begun_ = value.has_value();
      failed_ = false;
    };
  }

  void look() const {
    if (!begun_) advance();
  }

  void advance() const {
    graph::Element element;
    value_.reset();
    begun_ = failed_ = true;
    if (pass_.next(element)) value_ = placed(std::move(element));
    failed_ = false;
  }

  T placed(graph::Element element) const {
    return from_element<T>(place_ ? place_(std::move(element)) : std::move(element));
  }

  const T& value() const {
    look();
    if (!value_)
      throw Error(ErrorCode::failed_precondition,
                  failed_ ? "DatasetIterator: the element has thrown, so that there is none; go on with ++"
                          : "DatasetIterator: the iterator is at its end, where there is no element");
    return *value_;
  }

  mutable graph::Pass pass_;
  std::function<graph::Element(graph::Element)> place_;
  mutable std::optional<T> value_;
  mutable bool begun_ = false;   // the current element, or the end, was asked for
  mutable bool failed_ = false;  // and has thrown
};

}  // namespace tutti::data
