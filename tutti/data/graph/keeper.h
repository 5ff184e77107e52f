#pragma once

#include <utility>
#include <vector>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// For an operation that keeps elements for long: so that a row does not keep its whole batch alive, nor a view the
// memory of what it was cut from. Those of the dataset's own tables stay views, as their memory is there anyway.
class Keeper {
 public:
  explicit Keeper(const Node& input);

  // The element, or a copy of it.
  Element operator()(Element element) const;

 private:
  using Range = std::pair<const void*, const void*>;

  bool is_own(const void* address) const;
  Leaf kept(const Leaf& leaf) const;

  std::vector<Range> own_;  // the memory of the sources' tables
};

}  // namespace tutti::data::graph
