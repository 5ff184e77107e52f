#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

struct Seed {
  uint64_t value;
  bool of_gpus;  // whether those of the GPUs have it too, as after torch::manual_seed
};

// Tells where C++ seeds LibTorch's generator of the CPU, which no call shows.
class SeedWatch {
 public:
  // The seed that the generator got since the last look. None of a seed that it had, and of which nothing was drawn.
  std::optional<Seed> look();

 private:
  static std::optional<uint64_t> unused_seed();

  std::optional<uint64_t> unused_ = unused_seed();
};

// Gives the generators their seed.
void set_seed(Seed seed);

}  // namespace tutti
