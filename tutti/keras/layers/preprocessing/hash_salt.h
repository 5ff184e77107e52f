#pragma once

#include <cstdint>

namespace tutti::keras {

// The key of a hash that only who knows it can compute; one number is both halves.
struct HashSalt {
  uint64_t first, second;
  constexpr HashSalt(uint64_t both) : first(both), second(both) {}
  constexpr HashSalt(uint64_t first, uint64_t second) : first(first), second(second) {}
  bool operator==(const HashSalt&) const = default;
};

}  // namespace tutti::keras
