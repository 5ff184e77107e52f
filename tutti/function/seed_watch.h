#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

// Tells where C++ seeds LibTorch's generator of the CPU, which no call shows.
class SeedWatch {
 public:
  // The seed that the generator got since the last look. None of a seed that it had, and of which nothing was drawn.
  std::optional<uint64_t> look();

 private:
  static std::optional<uint64_t> unused_seed();

  std::optional<uint64_t> unused_ = unused_seed();
};

void seed_cpu(uint64_t seed);

}  // namespace tutti
