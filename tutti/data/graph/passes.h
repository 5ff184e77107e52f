#pragma once

#include <memory>
#include <mutex>

#include "tutti/data/graph/node.h"
#include "tutti/data/graph/random.h"

namespace tutti::data::graph {

// Numbers an operation's passes in the order in which they begin; the random numbers of pass n are a function of the
// seed and n.
class Passes : public SharedState, public std::enable_shared_from_this<Passes> {
 public:
  // With `again` each pass has numbers of its own, else all have those of the first.
  Passes(const char* op, uint64_t seed, bool again) : op_(op), again_(again), seed_(seed) {}

  // The seed of a new pass.
  uint64_t begin();

  void save(StateWriter& state) const override;
  void restore(StateReader& state) override;

 private:
  const char* const op_;
  const bool again_;
  mutable std::mutex mutex_;
  uint64_t seed_;  // guarded by mutex_, as the next
  uint64_t next_ = 0;
};

}  // namespace tutti::data::graph
