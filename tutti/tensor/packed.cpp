#include "tutti/tensor/packed.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>

namespace tutti {

int64_t packed_bytes(const at::Tensor& value) {
  constexpr int64_t kAlignment = 64;
  return (static_cast<int64_t>(value.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

at::Tensor in_pack(const at::Tensor& pack, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const at::AutoDispatchBelowADInplaceOrView no_view;
  return pack.as_strided(sizes, strides, offset / static_cast<int64_t>(pack.element_size()));
}

}  // namespace tutti
