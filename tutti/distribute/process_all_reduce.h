#pragma once

#include <memory>
#include <mutex>

#include "tutti/distribute/cross_device_ops.h"
#include "tutti/tensor/across_processes.h"

namespace tutti {

// Reduces and gathers over the replicas of all processes: here in one pass over memory, whose result is what travels,
// then over the processes. Values are in the order of the ranks, and in each of its replicas. Every process makes the
// same calls; batch_reduce's requests may have one value for each of its replicas, or one for the process.
class ProcessAllReduce final : public CrossDeviceOps {
 public:
  ProcessAllReduce(std::shared_ptr<Processes> processes, int64_t bytes_per_pack, ParallelCall parallel);

  std::vector<std::vector<Tensor>> batch_reduce(ReduceOp op, std::vector<ReduceRequest> requests) const override;
  std::vector<Tensor> gather(const PerReplica<Tensor>& values, const Destinations& destinations,
                             int64_t axis) const override;

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  std::shared_ptr<Processes> processes_;
  int64_t bytes_per_pack_;
  ParallelCall parallel_;
};

}  // namespace tutti
