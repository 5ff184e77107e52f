#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace tutti {

// Seeds LibTorch's default generators, as torch::manual_seed does, and every strategy's replicas anew. Same seed, same
// strategy, same program: same numbers. TF: tf.random.set_seed.
void set_random_seed(uint64_t seed);

// What the random numbers of replicas follow: the last seed, and how often one was set.
struct RandomSeed {
  uint64_t seed;
  uint64_t times_set;
  bool operator==(const RandomSeed&) const = default;
};
RandomSeed random_seed();

// A generator of its own on `device`.
at::Generator make_generator(uint64_t seed, c10::Device device);

// A generator on `device` whose numbers differ for each replica and are the same for each (seed, replica).
at::Generator make_replica_generator(uint64_t seed, int replica, c10::Device device);

}  // namespace tutti
