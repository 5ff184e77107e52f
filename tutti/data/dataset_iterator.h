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

// An input iterator over one pass of a dataset; begin() of the dataset makes it, std::default_sentinel is its end.
// Movable, used by one thread at a time, and independent of the dataset's lifetime. A part of a checkpoint: see
// save_state().
template <class T>
class DatasetIterator : public Savable {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  explicit DatasetIterator(const graph::NodePtr& node) : pass_(node) { ++*this; }

  // Throws: failed_precondition where the last ++ has thrown: there is no element; go on with ++.
  const T& operator*() const { return value(); }
  const T* operator->() const { return &value(); }

  // What it throws stands in the place of an element: the iterator is not at its end, and ++ goes on behind.
  DatasetIterator& operator++() {
    graph::Element element;
    value_.reset();
    failed_ = true;
    if (pass_.next(element)) value_ = from_element<T>(std::move(element));
    failed_ = false;
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const DatasetIterator& iterator, std::default_sentinel_t) {
    return !iterator.value_ && !iterator.failed_;
  }

  // Where the iterator is, uint8 [bytes], and back there, in any iterator of a dataset that was built in the same way,
  // also in another process: *iterator is again what it was, and each element that had not yet come comes once, in the
  // same order. Shuffling has its buffer and random state in it (and later passes of that dataset go on with the seed
  // and the number of the pass that it says), prefetch() and parallel maps what they computed ahead, cache() what it
  // holds. Rows of from_tensor_slices cost 24 bytes each, other elements what they hold. What functions draw or
  // remember is not part of it. A generator's elements are made again and dropped.
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
    if (!restored.taken.empty()) value = from_element<T>(std::move(restored.taken.front()));
    return [this, go = std::move(restored.go), value = std::move(value)] {
      go();
      value_ = value;
      failed_ = false;
    };
  }

  const T& value() const {
    if (!value_)
      throw Error(ErrorCode::failed_precondition,
                  failed_ ? "DatasetIterator: the last ++ has thrown, so that there is no element; go on with ++"
                          : "DatasetIterator: the iterator is at its end, where there is no element");
    return *value_;
  }

  graph::Pass pass_;
  std::optional<T> value_;
  bool failed_ = false;  // the last ++ has thrown
};

}  // namespace tutti::data
