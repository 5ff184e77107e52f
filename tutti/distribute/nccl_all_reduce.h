#pragma once

#include <chrono>
#include <memory>

#include "tutti/cluster/environment.h"
#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

struct NcclAllReduceOptions {
  // Into how many packs, at most, the tensors of a call are put that have one dtype, each whole and in their order;
  // 0: each tensor is a pack.
  int num_packs = 1;
  // How long the GPUs wait for each other, when they join and in each call.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
};

// Sums what lies on several GPUs of this process by NVIDIA's NCCL: the strategies' own where all their devices are
// GPUs, and not all of them the same one. Values of replicas on one GPU are summed there, and NCCL sums between GPUs:
// it takes a GPU only once. What NCCL does not sum goes as without it, by copies to one device: values in host memory,
// of which all lie on one GPU, with a graph, without elements, and int16; it gathers and broadcasts nothing either.
//
// GPUs join when they first have something to sum. A call takes part in their current streams, all its packs at once,
// and returns when all have the sums; a failure is an error that names the GPU and what was reduced, and the next call
// joins them anew. Sums have the same bits on all GPUs and in every run, but of three GPUs or more they are not taken
// in the order of the replicas. TF: tf.distribute.NcclAllReduce.
class NcclAllReduce final : public CrossDeviceOps {
 public:
  // Throws: invalid_argument for num_packs < 0; not_found, failed_precondition as nccl::load, which reads the
  // environment.
  explicit NcclAllReduce(NcclAllReduceOptions options = {},
                         const cluster::Environment& environment = cluster::Environment::of_process());

 protected:
  // Throws also unavailable, failed_precondition and deadline_exceeded, as NCCL fails.
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  class Cliques;

  void sum_between(const std::vector<c10::Device>& gpus, ReduceOp op, std::span<const ReduceRequest> requests,
                   std::span<const size_t> members, std::vector<std::vector<Tensor>>& results) const;

  NcclAllReduceOptions options_;
  std::shared_ptr<Cliques> cliques_;
};

}  // namespace tutti
