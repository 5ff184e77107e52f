#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tutti/data/graph/node.h"
#include "tutti/data/graph/random.h"

namespace tutti::data::graph {

// An operation that draws numbers: they are a function of its seed, of how many iterators were begun before, and of
// the pass's place in its iterator.
class Passes : public SharedState, public std::enable_shared_from_this<Passes> {
 public:
  // With `again` each pass has numbers of its own, else all have those of the first.
  Passes(std::string op, const Seed& seed, bool again)
      : op_(std::move(op)), again_(again), is_given_(seed.is_given), seed_(seed.value) {}

  bool draws_anew() const { return again_; }  // in each pass
  // Of a new pass.
  uint64_t seed_of(const Context& context) const;
  uint64_t seed() const;
  // That passes which are begun so have, where the program gave one: its own, or that of a state it restored.
  std::optional<uint64_t> given_seed(const Context& context) const;
  // What datasets that this operation's function makes are begun with, as parts: they are no part of the graph, and so
  // have no iterators' number of their own.
  Context of_functions(const Context& context) const;

  void begin(PassNumbers& numbers) override;
  void save(StateWriter& state) const override;
  void restore(StateReader& state) override;

 private:
  PassNumbers::Number number_of(const Context& context) const;

  const std::string op_;
  const bool again_;
  const bool is_given_;
  mutable std::mutex mutex_;
  uint64_t seed_;           // guarded by mutex_, as the next
  uint64_t iterators_ = 0;  // that were begun
};

// For each input, how many inputs before it pass over an operation with Passes that it passes over too: the index of
// its part of the context, so that no two passes are alike.
std::vector<uint64_t> parts_of(const std::vector<NodePtr>& inputs);

}  // namespace tutti::data::graph
