#pragma once

#include <cstdint>
#include <stop_token>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// Takes elements of an input that are not asked for. One that throws is passed over as well: it is not this operation's
// to throw, and would take a place of its own among those that are. A warning tells of the first.
class PassOver {
 public:
  PassOver(const char* op, std::stop_token stop) : op_(op), stop_(std::move(stop)) {}

  // One of them; false at the end of the input. Throws: cancelled when the consumer is gone.
  bool operator()(Iterator& input);

 private:
  const char* op_;
  std::stop_token stop_;
  bool told_ = false;
};

}  // namespace tutti::data::graph
