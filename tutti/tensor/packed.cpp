#include "tutti/tensor/packed.h"

#include <ATen/ops/empty.h>

namespace tutti {

int64_t packed_bytes(const at::Tensor& value) {
  constexpr int64_t kAlignment = 64;
  return (static_cast<int64_t>(value.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

at::Tensor in_pack(const at::Tensor& pack, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  at::Tensor tensor = at::empty({0}, pack.options());
  tensor.set_(pack.storage(), offset / static_cast<int64_t>(pack.element_size()), sizes, strides);
  return tensor;
}

}  // namespace tutti
