#include "tutti/tensor/replica_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/COW.h>
#include <torch/csrc/autograd/variable.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

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

// Moves a leaf out of the buffer that it shares.
void own_buffer(const Tensor& leaf) { leaf.mutable_data_ptr(); }

// Leaves one of `terms` shares of the value; of integers the first has what division leaves over.
void take_share(const Tensor& leaf, int64_t terms, bool first) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!at::isIntegralType(leaf.scalar_type(), /*includeBool=*/false)) return static_cast<void>(leaf.div_(terms));
  const Tensor share = leaf.div(terms, "trunc");
  leaf.copy_(first ? leaf.sub(share.mul(terms - 1)) : share);
}

[[noreturn]] void refuse_other_mesh(const std::string& variable, const Mesh& mesh, const ThreadView& view) {
  const auto place = [](const Mesh& mesh) { return str(mesh.to_string(), " on ", str_list(mesh.devices())); };
  throw Error(
      ErrorCode::failed_precondition,
      str("replica ", view.replica, " of a strategy with the mesh ", view.mesh ? place(view.mesh->mesh) : "none",
          " touches ", variable, ", which lies on the mesh ", place(mesh),
          ": it belongs to another strategy; make it in the scope of this one, or pass its value, gather(x)"));
}

// "w", "w/replica_1", … as TensorFlow names them.
std::string component_name(const std::string& variable, size_t replica) {
  return variable.empty() || replica == 0 ? variable : str(variable, "/replica_", replica);
}

// A tensor with the geometry of `piece`, sharing its buffer.
Tensor make_leaf(const Tensor& piece, const std::string& name) {
  Tensor leaf = at::detail::make_tensor<c10::TensorImpl>(share_storage(piece), piece.key_set(), piece.dtype());
  leaf.unsafeGetTensorImpl()->set_sizes_and_strides(piece.sizes(), piece.strides(), piece.storage_offset());
  if (!name.empty()) torch::autograd::impl::set_name(leaf, name);
  return leaf;
}

}  // namespace

ReplicaValues::ReplicaValues(const MeshShape* shape, Components pieces, bool replicated)
    : shape_(shape), pieces_(std::move(pieces)), replicated_(replicated) {}

void ReplicaValues::replicas_start() { epoch().fetch_add(1, std::memory_order_relaxed); }

void ReplicaValues::declare(const VariablePolicy& policy, std::string name) {
  policy_ = policy;
  name_ = std::move(name);
  if (!on_read()) return;
  share_all(1);
  live_.store(true, std::memory_order_release);
}

std::string ReplicaValues::describe() const {
  return str("the variable ", name_.empty() ? "" : "'" + name_ + "' ", "of shape ", str_list(pieces_[0].sizes()));
}

inline const Tensor& ReplicaValues::leaf_of(const MeshTensorImpl& variable, const ThreadView& view) {
  if (variable.mesh_shape() != view.mesh) refuse_other_mesh(describe(), variable.mesh_shape()->mesh, view);
  if (!live_.load(std::memory_order_acquire)) make_live();
  return leaves_[static_cast<size_t>(view.replica)];
}

const Tensor& ReplicaValues::acquire(const MeshTensorImpl& variable, const ThreadView& view) {
  const Tensor& leaf = leaf_of(variable, view);
  follow_variable(variable, leaf);
  return leaf;
}

Tensor ReplicaValues::acquire_view(const MeshTensorImpl& part, const ThreadView& view) {
  const Tensor& leaf = leaf_of(part, view);
  refuse_lost_gradient(part);
  if (!replicated_ || !part.whole() || part.copied_view || part.dtype() != leaf.dtype())
    throw Error(ErrorCode::unimplemented,
                str("replica ", view.replica, " uses a view that global view made of ", describe(),
                    ", which is sharded or of another dtype; make the view in run"));
  return leaf.detach().as_strided(part.sizes(), part.strides(), part.storage_offset());
}

void ReplicaValues::make_live() {
  const std::lock_guard lock(mutex_);
  if (live_.load(std::memory_order_relaxed)) return;
  share_all(is_sum() ? static_cast<int64_t>(pieces_.size()) : 1);
  live_.store(true, std::memory_order_release);
}

// Gives each leaf the value of its piece; on_read a buffer of its own, with one of `terms` shares of the value.
void ReplicaValues::share_all(int64_t terms) {
  const bool made = !leaves_.empty();
  sources_.resize(pieces_.size());
  leaves_.resize(pieces_.size());
  shared_data_.resize(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const c10::Device own = shape_->devices[i];
    sources_[i] = pieces_[i].device() == own ? pieces_[i] : pieces_[i].to(own);
    if (made) {
      leaves_[i].unsafeGetTensorImpl()->set_storage_keep_dtype(share_storage(sources_[i]));
    } else {
      leaves_[i] = make_leaf(sources_[i], component_name(name_, i));
      blanks_.push_back(no_storage(own));
    }
    shared_data_[i] = leaves_[i].storage().data();
    if (!on_read()) continue;
    own_buffer(leaves_[i]);
    shared_data_[i] = nullptr;
    if (terms > 1) take_share(leaves_[i], terms, i == 0);
  }
}

c10::ArrayRef<Tensor> ReplicaValues::components() {
  if (!live_.load(std::memory_order_acquire)) make_live();
  read_epoch_ = 0;
  return leaves_;
}

bool ReplicaValues::diverged() const {
  if (!live_.load(std::memory_order_acquire)) return false;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (written(i)) return true;
  return false;
}

void ReplicaValues::read() {
  const uint64_t now = epoch().load(std::memory_order_relaxed);
  if (read_epoch_ == now || !live_.load(std::memory_order_acquire)) return;
  if (on_read() && policy_->aggregation == VariableAggregation::none)
    throw Error(ErrorCode::invalid_argument,
                str(describe(),
                    " is on_read without an aggregation: outside of replicas, where it is read, it has no "
                    "value; read it in run, or make it with an aggregation"));
  read_epoch_ = now;
  if (!diverged()) return;
  if (read_only_) {
    drop_all();
    throw Error(ErrorCode::failed_precondition,
                "a replica wrote in place to its read copy of a parameter, which lies on another device; the write is "
                "dropped. Change it with assign(), or where the replicas meet: merge_call, an optimizer's step");
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  if (replicated_) return take_aggregate();
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (written(i)) pieces_[i].copy_(leaves_[i]);
}

VariableAggregation ReplicaValues::aggregation() const {
  if (policy_) return on_read() ? policy_->aggregation : VariableAggregation::only_first_replica;
  const Tensor& first = leaves_[0];
  return first.is_floating_point() || first.is_complex() ? VariableAggregation::mean
                                                         : VariableAggregation::only_first_replica;
}

void ReplicaValues::take_aggregate() {
  const Tensor value = aggregate(aggregation(), leaves_);
  if (value.is_same(leaves_[0]) && !written(0)) return;  // it is the global value already
  // Who shares a buffer must share it with the global value, which never drops its share beside another thread.
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (!written(i)) own_buffer(leaves_[i]);
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (i == 0 || !pieces_[i].is_alias_of(pieces_[0])) pieces_[i].copy_(value);
}

void ReplicaValues::write() {
  if (!live_.load(std::memory_order_acquire)) return;
  read();
  drop_all();
}

void ReplicaValues::overwrite() {
  if (live_.load(std::memory_order_acquire)) drop_all();
}

void ReplicaValues::drop_all() {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    auto* impl = leaves_[i].unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(blanks_[i]);
    if (!impl->is_inference()) impl->bump_version();  // a graph that saved the old value must not use the new one
  }
  live_.store(false, std::memory_order_release);
}

void ReplicaValues::rebase(Components pieces, bool replicated) {
  {
    const std::lock_guard lock(mutex_);
    pieces_ = std::move(pieces);
    replicated_ = replicated;
    leaves_.clear();
    blanks_.clear();
    shared_data_.clear();
    live_.store(false, std::memory_order_release);
  }
  if (on_read()) make_live();
}

}  // namespace tutti
