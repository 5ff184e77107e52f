#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace tutti::fuzz {

// Random choices that are equal on every machine: the standard's distributions are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  // In [0, n). Requires n > 0.
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  // In [first, last].
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  bool chance(int percent) { return below(100) < percent; }

  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace tutti::fuzz
