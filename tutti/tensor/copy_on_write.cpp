#include "tutti/tensor/copy_on_write.h"

#include <ATen/ops/clone.h>
#include <c10/core/impl/COW.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "tutti/device/on_device.h"
#include "tutti/tensor/call_recorder.h"

namespace c10::impl::cow {
C10_API void materialize_cow(StorageImpl* storage);  // LibTorch 2.11 has none, and none is called there
}

namespace tutti {
namespace {

namespace cow = c10::impl::cow;

// LibTorch 2.13 leaves to a storage that grew the function that ends its share at the next write, which fails where
// there is none any more. This one looks; LibTorch 2.11 does so by itself.
template <class Storage>
void let_grow(Storage* storage) {
  if constexpr (requires { storage->clear_materializer(); }) {
    storage->clear_materializer();
    storage->set_materializer([](c10::StorageImpl* written) {
      const OnDevice there(written->device());  // LibTorch takes the copy's memory of the current GPU
      if (has_share(*written)) cow::materialize_cow(written);
    });
  }
}

// Of a storage that grew, and was not written to since.
template <class Storage>
void forget_share(Storage* storage) {
  if constexpr (requires { storage->clear_materializer(); }) storage->clear_materializer();
}

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
  const bool is_first = !has_share(*storage);
  if (is_first) forget_share(storage);
  c10::Storage share(cow::lazy_clone_storage(*storage));
  if (!share) return share;
  if (is_first) let_grow(storage);
  let_grow(share.unsafeGetStorageImpl());
  return share;
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

bool has_share(c10::StorageImpl& storage) { return cow::is_cow_data_ptr(storage._mutable_data_ptr_no_checks()); }

void KeptShares::add(c10::StorageImpl& storage) {
  if (!has_share(storage)) return;
  forget_share(&storage);
  storages_.push_back(&storage);
}

KeptShares::~KeptShares() {
  for (c10::StorageImpl* const storage : storages_) let_grow(storage);
}

void leave_share(const Tensor& tensor) {
  const OnDevice there(tensor.device());
  tensor.mutable_data_ptr();
}

}  // namespace tutti
