#pragma once

#include "tutti/distribute/cross_device_ops.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {

// What reduces where no other cross-device ops were given: sums dense tensors in host memory in one pass, straight into
// the results, in replica order: bit for bit the same on any number of threads.
class InProcessAllReduce final : public CrossDeviceOps {
 public:
  // `parallel` calls a function on threads that can help with large tensors; empty: the caller sums alone.
  explicit InProcessAllReduce(ParallelCall parallel = {}) : parallel_(std::move(parallel)) {}

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  ParallelCall parallel_;
};

}  // namespace tutti
