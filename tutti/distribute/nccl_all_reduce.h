#pragma once

#include <memory>

#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

struct NcclAllReduceOptions {
  int num_packs = 1;  // as in HierarchicalCopyAllReduceOptions
};

// All-reduce by NVIDIA's library, in builds that have it. TF: tf.distribute.NcclAllReduce.
class NcclAllReduce final : public CrossDeviceOps {
 public:
  // Throws: invalid_argument for num_packs < 0; unimplemented, naming the build option, in a build without NCCL.
  explicit NcclAllReduce(NcclAllReduceOptions options = {});

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  std::shared_ptr<const CrossDeviceOps> backend_;
};

// The backend of this build.
std::shared_ptr<const CrossDeviceOps> make_nccl_backend(const NcclAllReduceOptions& options);

}  // namespace tutti
