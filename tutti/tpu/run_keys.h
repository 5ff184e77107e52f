#pragma once

#include <cstdint>
#include <mutex>

#include "tutti/tensor/random_state.h"

namespace tutti::tpu {

// The key from which a run of a compiled program draws its random numbers. It follows from the seed that
// set_random_seed() gave and from how many were drawn since, whatever the number of replicas, and is a part of what
// random_state() saves. Threads: any.
class RunKeys {
 public:
  uint64_t draw();

 private:
  std::mutex mutex_;
  // One replica alone would draw from LibTorch's own generator, which others draw from too.
  ReplicaGenerators generators_{{c10::kCPU, c10::kCPU}};
};

}  // namespace tutti::tpu
