#include "tests/support/simulated_host_call.h"

#include <ATen/SparseTensorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_graph.h"
#include "tests/support/simulated_kernels.h"
#include "tests/support/simulated_memory.h"

namespace tutti {

using at::Tensor;

namespace {

// A tensor of this geometry, and of the properties that kernels look at.
Tensor with_geometry(const Tensor& made, const Tensor& like) {
  auto* const impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return made;
}

// As LibTorch's views, no inference tensor in inference mode unless `viewed` is one.
Tensor make_view(const Tensor& viewed, const Tensor& like) {
  constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  return with_geometry(at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(viewed.storage()),
                                                                viewed.key_set() - kLazy, like.dtype()),
                       like);
}

const at::SparseTensorImpl& sparse_impl(const Tensor& tensor) {
  return *static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

Tensor make_sparse(c10::DispatchKey key, const Tensor& like, const Tensor& indices, const Tensor& values) {
  Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  auto* const impl = static_cast<at::SparseTensorImpl*>(made.unsafeGetTensorImpl());
  impl->raw_resize_(sparse_impl(like).sparse_dim(), sparse_impl(like).dense_dim(), like.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(sparse_impl(like).coalesced());
  return made;
}

}  // namespace

bool is_simulated(const Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

Tensor make_like(c10::Storage storage, c10::DispatchKey key, const Tensor& like) {
  c10::DispatchKeySet keys(key);
  if (like._is_zerotensor()) keys = keys.add(c10::DispatchKey::ZeroTensor);
  return with_geometry(at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype()), like);
}

Tensor HostCall::to_host(const Tensor& tensor, bool is_written) {
  if (!is_simulated(tensor)) return tensor;
  TORCH_CHECK(tensor.is_sparse() || tensor.storage().device() == tensor.device(), "a tensor on ", tensor.device(),
              " has its memory on ", tensor.storage().device());
  for (const Pair<Tensor>& known : tensors_)
    if (known.device.is_same(tensor)) return known.host;
  Tensor host;
  if (tensor.is_sparse())
    host = make_sparse(c10::DispatchKey::SparseCPU, tensor, to_host(sparse_impl(tensor).indices(), is_written),
                       to_host(sparse_impl(tensor).values(), is_written));
  else
    host = make_like(to_host(tensor.storage(), is_written), c10::DispatchKey::CPU, tensor);
  tensors_.push_back({tensor, host});
  return host;
}

c10::Storage HostCall::to_host(const c10::Storage& storage, bool is_written) {
  if (storage.device_type() != c10::kPrivateUse1) return storage;
  for (const Memory& known : memories_)
    if (known.device.is_alias_of(storage)) return known.host;
  if (is_written) storage.mutable_data();  // ends a share
  void* const begin = seen_by_kernels(storage.data());
  c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(),
                    c10::DataPtr(
                        begin, begin, [](void*) {}, c10::kCPU),
                    c10::GetCPUAllocator(), /*resizable=*/true);
  Memory memory{{storage, host}, begin, {}};
  if (begin && c10::impl::cow::is_cow_data_ptr(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks())) {
    memory.sharer = host;  // so that a kernel that writes without saying so gets memory of its own
    memory.host = c10::Storage(c10::impl::cow::lazy_clone_storage(*host.unsafeGetStorageImpl()));
  }
  memories_.push_back(memory);
  return memory.host;
}

Tensor HostCall::to_device(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu()) return tensor;
  for (const Pair<Tensor>& known : tensors_)
    if (known.host.is_same(tensor)) return known.device;
  const c10::DeviceGuard guard(simulated_device(device_));
  if (tensor.is_sparse())
    return make_sparse(c10::DispatchKey::SparsePrivateUse1, tensor, to_device(sparse_impl(tensor).indices()),
                       to_device(sparse_impl(tensor).values()));
  for (const Pair<Tensor>& known : tensors_)
    if (!known.host.is_sparse() && known.host.storage().is_alias_of(tensor.storage()))
      return make_view(known.device, tensor);
  return make_like(to_device(tensor.storage()), c10::DispatchKey::PrivateUse1, tensor);
}

void HostCall::restore_after_capture() const {
  for (const Memory& memory : memories_) {
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory.begin));
    if (begin) tutti::restore_after_capture(device_, begin, {begin, begin + memory.device.nbytes()});
  }
}

bool HostCall::knows(const c10::Storage& host) const {
  return std::ranges::any_of(memories_, [&](const Memory& memory) { return memory.begin == host.data(); });
}

void HostCall::follow() {
  for (size_t i = 0; i < memories_.size(); ++i) follow(memories_[i]);
  for (size_t i = 0; i < tensors_.size(); ++i) follow(Pair<Tensor>(tensors_[i]));
}

c10::Storage HostCall::to_device(const c10::Storage& host) {
  for (const Memory& known : memories_)
    if (known.host.is_alias_of(host)) return known.device;
  c10::Storage device(c10::Storage::use_byte_size_t(), host.nbytes(), copied(host), &simulated_memory(),
                      /*resizable=*/true);
  memories_.push_back({{device, host}, host.data(), {}});
  return device;
}

c10::DataPtr HostCall::copied(const c10::Storage& host) const {
  const c10::DeviceGuard guard(simulated_device(device_));
  const size_t num_bytes = host.data() ? host.nbytes() : 0;  // a ZeroTensor has none
  c10::DataPtr memory = simulated_memory().allocate(num_bytes);
  if (kernels_are_late()) wait_for_current_stream(device_);  // which empties the memory
  if (num_bytes > 0) std::memcpy(seen_by_kernels(memory.get()), host.data(), num_bytes);
  return memory;
}

void HostCall::follow(Memory& memory) {
  if (memory.host.data() == memory.begin && memory.host.nbytes() == memory.device.nbytes()) return;
  memory.device.set_data_ptr_noswap(copied(memory.host));
  memory.device.set_nbytes(memory.host.nbytes());
  memory.begin = memory.host.data();
}

void HostCall::follow(const Pair<Tensor>& pair) {
  auto* const device = pair.device.unsafeGetTensorImpl();
  if (pair.host.is_sparse()) {
    auto* const sparse = static_cast<at::SparseTensorImpl*>(device);
    const auto& of_host = sparse_impl(pair.host);
    if (of_host.sizes() != sparse->sizes() || of_host.sparse_dim() != sparse->sparse_dim())
      sparse->raw_resize_(of_host.sparse_dim(), of_host.dense_dim(), of_host.sizes());
    sparse->set_indices_and_values_unsafe(to_device(of_host.indices()), to_device(of_host.values()));
    return sparse->set_coalesced(of_host.coalesced());
  }
  c10::Storage storage = to_device(pair.host.storage());
  if (!storage.is_alias_of(pair.device.storage())) device->set_storage_keep_dtype(std::move(storage));
  const bool same = pair.host.sizes() == pair.device.sizes() && pair.host.strides() == pair.device.strides() &&
                    pair.host.storage_offset() == pair.device.storage_offset();
  if (!same) device->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(), pair.host.storage_offset());
}

}  // namespace tutti
