#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::data::graph {

// SplitMix64 (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195): its whole state is one number.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n), by the upper half of a 128-bit product.
  size_t below(size_t n) { return static_cast<size_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }

  // Uniform in [0, 1), by 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

// A seed from LibTorch's CPU generator: it follows from torch::manual_seed.
uint64_t draw_seed();

struct Seed {
  uint64_t value = 0;
  bool is_given = false;  // by the program
};
// The one that is given, or one that is drawn.
Seed seed_or_drawn(const std::optional<uint64_t>& given);

}  // namespace tutti::data::graph
