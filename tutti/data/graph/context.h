#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <utility>

namespace tutti::data::graph {

class Passes;

// What an iterator took of each operation of its graph that draws numbers, when it was begun or restored: so it does
// not matter to its later passes who else iterates, or when.
class PassNumbers {
 public:
  struct Number {
    uint64_t seed;
    uint64_t iterator;  // how many were begun before
  };
  // Of one in a dataset that a function made: its seed, and none before.
  Number of(const Passes& passes) const;
  void set(const std::shared_ptr<const Passes>& passes, Number number) { numbers_[passes] = number; }

 private:
  std::map<std::shared_ptr<const Passes>, Number, std::owner_less<>> numbers_;
};

// What a pass is begun with.
struct Context {
  std::stop_token stop = {};                       // whoever waits for user code gives up when it is requested
  std::shared_ptr<PassNumbers> numbers = nullptr;  // of the iterator; null: as if it were the first
  // Which of the iterator's passes over the operation, as a hash of the way to it: 0 for the first.
  uint64_t place = 0;
  int depth = 0;
  bool is_first = false;  // counts as the first iterator, whichever it is

  // Pass number `index` of those that an operation begins below itself.
  Context part(uint64_t index) const;
  // Every pass that is begun so draws the same numbers, whichever iterator's it is.
  Context fixed() const { return {.stop = stop, .numbers = numbers, .is_first = true}; }
  Context stopped_by(std::stop_token other) const {
    Context context = *this;
    context.stop = std::move(other);
    return context;
  }
};

}  // namespace tutti::data::graph
