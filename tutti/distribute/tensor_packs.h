#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

// The values of several tensors of one dtype, flattened and end to end on each replica, cut into packs that are reduced
// one by one.
class TensorPacks {
 public:
  // Throws: invalid_argument unless num_packs >= 1.
  TensorPacks(std::span<const ReduceRequest* const> requests, int num_packs);

  // packs()[p][r]: pack p of replica r.
  const std::vector<std::vector<Tensor>>& packs() const { return packs_; }

  // Tensor i out of what the packs became on one destination, copied.
  Tensor unpack(const std::vector<Tensor>& packs, size_t i) const;

 private:
  std::vector<std::vector<Tensor>> packs_;
  std::vector<int64_t> sizes_;    // of the packs
  std::vector<Tensor> like_;      // the tensors of the first replica
  std::vector<int64_t> offsets_;  // where each tensor begins
};

}  // namespace tutti
