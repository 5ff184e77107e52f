#include "tutti/tensor/copy_on_write.h"

#include <ATen/ops/clone.h>
#include <c10/core/impl/COW.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "tutti/tensor/call_recorder.h"

namespace tutti {
namespace {

// Of the memories whose first share is being made; by address, so that replicas seldom wait for each other.
std::mutex& mutex_of(const c10::StorageImpl* storage) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[reinterpret_cast<uintptr_t>(storage) / alignof(c10::StorageImpl) % mutexes.size()];
}

}  // namespace

c10::Storage share_storage(const Tensor& tensor) {
  if (!tensor.has_storage() || CallRecorder::current()) return {};  // a recording copies by a call that it sees
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  const std::lock_guard lock(mutex_of(storage));
  return c10::Storage(c10::impl::cow::lazy_clone_storage(*storage));
}

Tensor make_over(c10::Storage storage, const Tensor& geometry) {
  Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), geometry.key_set(), geometry.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes(), geometry.strides(), geometry.storage_offset());
  return tensor;
}

Tensor share_or_copy(const Tensor& tensor) {
  c10::Storage shared = share_storage(tensor);
  return shared ? make_over(std::move(shared), tensor) : tensor.detach().clone();
}

Tensor share_whole_or_copy(const Tensor& tensor) {
  const bool whole = tensor.has_storage() && tensor.storage().nbytes() == tensor.nbytes();
  return whole ? share_or_copy(tensor) : tensor.clone();
}

void leave_share(const Tensor& tensor) { tensor.mutable_data_ptr(); }

}  // namespace tutti
