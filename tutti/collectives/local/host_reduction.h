#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/collectives/dtype.h"

namespace tutti {

// One tensor that several replicas hold a value of. An output may be one of the inputs; two buffers are otherwise
// apart.
struct ReductionItem {
  Dtype dtype = Dtype::float32;
  std::span<const void* const> inputs;  // one buffer of `count` elements per replica, in replica order
  std::span<void* const> outputs;       // buffers that each receive the whole result
  int64_t count = 0;                    // elements
  double divisor = 1;                   // 1 for a sum, the number of values for a mean; of floating-point dtypes only
};

// The in-process all-reduce of a list of tensors: every output becomes (inputs[0] + inputs[1] + …) / divisor.
// One pass over memory, in tiles that the threads which run it claim, so that a thread with a busy core delays nobody.
// The order of additions is that of the inputs: results are equal bit for bit for any number of threads.
// Allocates nothing; the spans must outlive it.
class HostReduction {
 public:
  // Throws: invalid_argument (no inputs or outputs, a null buffer, a count or divisor out of range, an integral mean).
  explicit HostReduction(std::span<const ReductionItem> items);

  // Claims tiles and reduces them until none is left. Any number of threads may call it, once each; when all have
  // returned the outputs are complete.
  void run();

  // How many threads can have something to do.
  int64_t num_tiles() const;

 private:
  const std::span<const ReductionItem> items_;
  size_t num_bytes_ = 0;  // of one buffer of every item, end to end
  alignas(64) std::atomic<size_t> claimed_ = 0;
};

}  // namespace tutti
