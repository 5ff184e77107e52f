#include "tutti/tensor/sparse_tensor.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>

#include <vector>

namespace tutti {

using at::Tensor;

Tensor sparse_tensor(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool is_coalesced) {
  return at::_sparse_coo_tensor_unsafe(indices, values, sizes, values.options().layout(at::kSparse), is_coalesced);
}

SparseTerms terms_of(std::span<const Tensor> sparse, c10::Device device) {
  std::vector<Tensor> indices, values;
  for (const Tensor& each : sparse) {
    indices.push_back(each._indices().to(device));
    values.push_back(each._values().to(device));
  }
  return {at::cat(indices, 1), at::cat(values)};
}

int64_t bytes_in(const Tensor& tensor) {
  return static_cast<int64_t>(tensor.is_sparse() ? tensor._indices().nbytes() + tensor._values().nbytes()
                                                 : tensor.nbytes());
}

}  // namespace tutti
