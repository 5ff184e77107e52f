#pragma once

#include <ATen/core/TensorBase.h>

namespace tutti {

// Whether the elements of a plain tensor are what its memory holds, and the host can reach that: it is on the CPU, not
// sparse, and no conjugation or negation is still to be done.
inline bool in_host_memory(const at::TensorBase& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg();
}

// The same of a tensor whose elements fill one range of memory, with the axes in any order: no gap, no element twice.
inline bool dense_in_host_memory(const at::TensorBase& tensor) {
  return in_host_memory(tensor) && tensor.is_non_overlapping_and_dense();
}

}  // namespace tutti
