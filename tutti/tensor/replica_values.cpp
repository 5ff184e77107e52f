#include "tutti/tensor/replica_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/equal.h>
#include <c10/core/impl/COW.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_gradient.h"

namespace tutti {
namespace {

std::atomic<uint64_t>& epoch() {
  static std::atomic<uint64_t> runs{1};
  return runs;
}

c10::Storage share_storage(const Tensor& piece) {
  auto shared = c10::impl::cow::lazy_clone_storage(*piece.storage().unsafeGetStorageImpl());
  if (!shared) throw Error(ErrorCode::internal, "a mesh tensor's buffer cannot be shared copy-on-write");
  return c10::Storage(std::move(shared));
}

// A storage without memory: what a leaf holds between two values.
c10::Storage no_storage(c10::Device device) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                            c10::DataPtr(nullptr, device), nullptr, false));
}

// A tensor with the geometry of `piece`, sharing its buffer.
Tensor make_leaf(const Tensor& piece) {
  Tensor leaf = at::detail::make_tensor<c10::TensorImpl>(share_storage(piece), piece.key_set(), piece.dtype());
  leaf.unsafeGetTensorImpl()->set_sizes_and_strides(piece.sizes(), piece.strides(), piece.storage_offset());
  return leaf;
}

}  // namespace

ReplicaValues::ReplicaValues(Components pieces, bool replicated)
    : pieces_(std::move(pieces)), replicated_(replicated) {}

void ReplicaValues::replicas_start() { epoch().fetch_add(1, std::memory_order_relaxed); }

const Tensor& ReplicaValues::acquire(const MeshTensorImpl& variable, int replica) {
  if (!live_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    if (!live_.load(std::memory_order_relaxed)) {
      share_all(*variable.mesh_shape());
      live_.store(true, std::memory_order_release);
    }
  }
  if (replica < 0 || static_cast<size_t>(replica) >= leaves_.size())
    throw Error(ErrorCode::failed_precondition, str("replica ", replica, " touches a mesh tensor of ", leaves_.size(),
                                                    " devices; it belongs to another strategy"));
  const Tensor& leaf = leaves_[static_cast<size_t>(replica)];
  follow_variable(variable, leaf);
  return leaf;
}

void ReplicaValues::share_all(const MeshShape& shape) {
  const bool made = !leaves_.empty();
  sources_.resize(pieces_.size());
  leaves_.resize(pieces_.size());
  shared_data_.resize(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    sources_[i] = pieces_[i].device() == shape.devices[i] ? pieces_[i] : pieces_[i].to(shape.devices[i]);
    if (made)
      leaves_[i].unsafeGetTensorImpl()->set_storage_keep_dtype(share_storage(sources_[i]));
    else
      leaves_[i] = make_leaf(sources_[i]);
    shared_data_[i] = leaves_[i].storage().data();
  }
}

void ReplicaValues::read() {
  const uint64_t now = epoch().load(std::memory_order_relaxed);
  if (read_epoch_ == now || !live_.load(std::memory_order_acquire)) return;
  read_epoch_ = now;
  bool any = false;
  for (size_t i = 0; i < leaves_.size(); ++i) any |= written(i);
  if (!any) return;
  if (read_only_) {
    drop_all();
    throw Error(ErrorCode::failed_precondition,
                "a replica wrote in place to its read copy of a parameter, which lies on another device; the write is "
                "dropped. Change it with assign(), or where the replicas meet: merge_call, an optimizer's step");
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  if (!replicated_) {
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (written(i)) pieces_[i].copy_(leaves_[i]);
    return;
  }
  const Tensor value = aggregate();
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (i == 0 || !pieces_[i].is_alias_of(pieces_[0])) pieces_[i].copy_(value);
}

bool ReplicaValues::leaves_agree() const {
  for (size_t i = 1; i < leaves_.size(); ++i)
    if (!at::equal(leaves_[i].to(leaves_[0].device()), leaves_[0])) return false;
  return true;
}

Tensor ReplicaValues::aggregate() const {
  // The mean of equal floats is not always that float; values that agree must stay as they are.
  if (!(leaves_[0].is_floating_point() || leaves_[0].is_complex()) || leaves_agree()) return leaves_[0];
  Tensor sum = leaves_[0].clone();
  for (size_t i = 1; i < leaves_.size(); ++i) sum.add_(leaves_[i].to(sum.device()));
  return sum.div_(static_cast<double>(leaves_.size()));
}

void ReplicaValues::write() {
  if (!live_.load(std::memory_order_acquire)) return;
  read();
  drop_all();
}

void ReplicaValues::drop_all() {
  for (const Tensor& leaf : leaves_) {
    auto* impl = leaf.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(no_storage(leaf.device()));
    if (!impl->is_inference()) impl->bump_version();  // a graph that saved the old value must not use the new one
  }
  live_.store(false, std::memory_order_release);
}

void ReplicaValues::rebase(Components pieces, bool replicated) {
  const std::lock_guard lock(mutex_);
  pieces_ = std::move(pieces);
  replicated_ = replicated;
  leaves_.clear();
  shared_data_.clear();
  live_.store(false, std::memory_order_release);
}

}  // namespace tutti
