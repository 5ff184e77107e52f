#pragma once

#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

struct HierarchicalCopyAllReduceOptions {
  // Into how many packs the tensors of a call, flattened and end to end, are cut before they are reduced; 0: each
  // tensor is reduced by itself.
  int num_packs = 1;
};

// All-reduce in two halves of the devices: each half is summed on its main device, the two sums on one of these, and
// the total goes back to both and on to their halves. The main device of the i-th pack is i modulo the number of
// devices, and its partner stands half of them further, so that packs use different links. Made for machines whose
// devices are linked closely within a half. Where a result is wanted on other devices than those of the values, say on
// one alone, it does what ReductionToOneDevice does. TF: tf.distribute.HierarchicalCopyAllReduce, which on an odd
// number of devices leaves the last one's value out of the sum; here the second half is larger by one.
class HierarchicalCopyAllReduce final : public CrossDeviceOps {
 public:
  // Throws: invalid_argument for num_packs < 0.
  explicit HierarchicalCopyAllReduce(HierarchicalCopyAllReduceOptions options = {});

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  HierarchicalCopyAllReduceOptions options_;
};

}  // namespace tutti
