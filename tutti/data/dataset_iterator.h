#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "tutti/data/graph/node.h"
#include "tutti/data/structure.h"

namespace tutti::data {

// An input iterator over one pass of a dataset; begin() of the dataset makes it, std::default_sentinel is its end.
// Movable, used by one thread at a time, and independent of the dataset's lifetime.
template <class T>
class DatasetIterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  explicit DatasetIterator(const graph::NodePtr& node) : pass_(node) { ++*this; }

  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }

  DatasetIterator& operator++() {
    graph::Element element;
    value_.reset();
    if (pass_.next(element)) value_ = from_element<T>(std::move(element));
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const DatasetIterator& iterator, std::default_sentinel_t) { return !iterator.value_; }

 private:
  graph::Pass pass_;
  std::optional<T> value_;
};

}  // namespace tutti::data
