#include "tutti/tensor/random_seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <atomic>

#include "tutti/tensor/registration.h"

namespace tutti {
namespace {

std::atomic<uint64_t> g_times_set{0};

// Spreads (seed, replica) over all 64 bits. Source: Steele et al. 2014, doi:10.1145/2660193.2660195 (SplitMix64).
uint64_t mix(uint64_t seed, uint64_t replica) {
  uint64_t z = seed + (replica + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

void set_random_seed(uint64_t seed) {
  at::manual_seed(seed);
  g_times_set.fetch_add(1, std::memory_order_relaxed);
}

RandomSeed random_seed() {
  return {at::detail::getDefaultCPUGenerator().current_seed(), g_times_set.load(std::memory_order_relaxed)};
}

at::Generator make_generator(uint64_t seed, c10::Device device) {
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

at::Generator make_replica_generator(uint64_t seed, int replica, c10::Device device) {
  ensure_registered();  // a replica's view hands it out
  return make_generator(mix(seed, static_cast<uint64_t>(replica)), device);
}

}  // namespace tutti
