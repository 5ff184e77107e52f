#pragma once

#include <future>
#include <string>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// What a dataset is made of, as far as its graph shows: "batch(4,0), shuffle(10), seed 7, range(0,1,10)". Operations
// with their arguments, but for those that change no element; seeds that the program gave; checksums of tensors in
// memory; the names of files and of their folders. What functions do, and what is in files, is not in it.
class Fingerprint {
 public:
  explicit Fingerprint(const NodePtr& node);

  // Of a pass that is begun so, whose seeds may be those of a state.
  std::string of(const Context& context) const;

 private:
  NodePtr node_;
  std::shared_future<std::string> contents_;  // computed once, when they are needed
};

}  // namespace tutti::data::graph
