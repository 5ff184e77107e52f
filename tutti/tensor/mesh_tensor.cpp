#include "tutti/tensor/mesh_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/copied_view.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/placement.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

c10::DispatchKeySet keys_for(const Tensor& component) {
  const auto autocast = component.is_cuda() ? c10::DispatchKey::AutocastCUDA : c10::DispatchKey::AutocastCPU;
  return c10::DispatchKeySet({kMeshKey, kFrontKey, autocast});
}

// Moves a component out of memory that LibTorch did not allocate (a file's, by set_()): such memory cannot be shared
// copy-on-write.
void own_memory(const Tensor& component) {
  if (!component.has_storage() || component.storage().allocator()) return;
  const Tensor copy = component.clone();
  auto* impl = component.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(copy.storage());
  impl->set_sizes_and_strides(copy.sizes(), copy.strides(), copy.storage_offset());
}

// Global strides with the axis order of a component, so that is_contiguous() is true of both or of neither.
at::DimVector global_strides(at::IntArrayRef sizes, at::IntArrayRef component_strides) {
  const size_t rank = sizes.size();
  c10::SmallVector<size_t, 8> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return component_strides[a] > component_strides[b]; });
  at::DimVector strides(rank);
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t axis = order[i];
    strides[axis] = component_strides[axis] == 0 ? 0 : stride;
    if (component_strides[axis] != 0) stride *= std::max<int64_t>(sizes[axis], 1);
  }
  return strides;
}

// The spec of a buffer that may have got other sizes than `spec` says; null stays null.
const Spec* spec_for(const Spec* spec, const Tensor& buffer) {
  if (!spec || buffer.sizes() == spec->sizes) return spec;
  return spec->rank() == buffer.dim() ? intern(spec->shape, spec->axes, spec->unreduced, buffer.sizes())
                                      : intern_replicated(spec->shape, buffer.sizes());
}

}  // namespace

MeshTensorImpl::MeshTensorImpl(const Spec* spec, Components components)
    : TensorImpl(keys_for(components[0]), components[0].dtype(), components[0].device()),
      shape_(spec->shape),
      spec_(spec),
      whole_(spec->replicated() && spec->num_components == 1),
      components_(std::move(components)) {
  sync_metadata();
  set_storage_access_should_throw();
  if (components_.size() > 1 && !shape_->mesh.shares_memory()) set_custom_device(true);  // who asks gets another answer
}

MeshTensorImpl::MeshTensorImpl(const MeshShape* shape, const Spec* spec, Tensor component)
    : TensorImpl(keys_for(component), component.dtype(), component.device()),
      shape_(shape),
      spec_(spec_for(spec, component)),
      whole_(!spec || spec->replicated()) {
  own_memory(component);
  take_metadata(*component.unsafeGetTensorImpl());
  components_.push_back(std::move(component));
  set_storage_access_should_throw();
}

void MeshTensorImpl::forget_meta() {
  if (auto* meta = meta_.exchange(nullptr)) meta->forget_tensor();
}

// Nobody holds the tensor any more, but weak references keep its place: aliases, and the scope that made it.
void MeshTensorImpl::release_resources() {
  forget_meta();
  TensorImpl::release_resources();
  root_ = nullptr;
  root_place_.reset();
  gathered_.reset();
  copied_view.reset();
  if (!has_aliases_.load(std::memory_order_relaxed)) components_.clear();
}

MeshTensorImpl::~MeshTensorImpl() {
  forget_meta();
  if (auto* values = replicas_.load(std::memory_order_relaxed)) c10::raw::intrusive_ptr::decref(values);
}

c10::Device MeshTensorImpl::device_custom() const {
  const ThreadView& view = ThreadView::current();
  if (view.replica < 0 || view.mesh != shape_) return device_default();
  return components_[static_cast<size_t>(shape_->project(view.replica, shape_->all, spec()->stored))].device();
}

const Spec* MeshTensorImpl::spec() const {
  const Spec* spec = spec_.load(std::memory_order_acquire);
  if (spec) return spec;
  spec = intern_replicated(shape_, sizes());
  spec_.store(spec, std::memory_order_release);
  return spec;
}

const Components& MeshTensorImpl::read() {
  if (auto* values = replica_values()) values->read();
  if (copied_view) copied_view->refresh();
  return components_;
}

const Components& MeshTensorImpl::write() {
  if (copied_view) copied_view->refresh();
  if (auto* values = replica_values()) values->write();
  return components_;
}

const Components& MeshTensorImpl::overwrite() {
  if (auto* values = replica_values()) values->overwrite();
  return components_;
}

void MeshTensorImpl::finish_write() {
  sync_metadata();
  if (copied_view) copied_view->write_back();
  if (auto* values = replica_values()) values->refresh_held();
}

void MeshTensorImpl::assign(const Spec* spec, Components components) {
  spec_.store(spec, std::memory_order_release);
  whole_ = spec->replicated() && spec->num_components == 1;
  components_ = std::move(components);
  sync_metadata();
}

// The geometry of the one buffer. LibTorch's own copy of it computes nothing anew, but takes a sparse layout with it.
void MeshTensorImpl::take_metadata(const TensorImpl& buffer) {
  if (buffer.layout() == at::kStrided && !buffer.is_wrapped_number())
    copy_generic_tensor_metadata(&buffer, this);
  else
    set_sizes_and_strides(buffer.sizes(), buffer.strides(), buffer.storage_offset());
}

void MeshTensorImpl::sync_metadata() {
  for (const Tensor& component : components_) own_memory(component);
  const Tensor& first = components_[0];
  const Spec* spec = spec_.load(std::memory_order_acquire);
  if (components_.size() == 1) {  // the buffer is the whole value: its geometry is ours
    if (const Spec* now = spec_for(spec, first); now != spec) spec_.store(now, std::memory_order_release);
    set_sizes_and_strides(first.sizes(), first.strides(), first.storage_offset());
  } else {
    set_sizes_and_strides(spec->sizes, global_strides(spec->sizes, first.strides()));
  }
  data_type_ = first.dtype();
}

ReplicaValues& MeshTensorImpl::require_replica_values() const {
  if (auto* values = replica_values()) return *values;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (auto* values = replica_values()) return *values;
  const MeshTensorImpl& root = family();
  const Spec* spec = root.spec();
  auto values = c10::make_intrusive<ReplicaValues>(shape_, replica_pieces(spec, root.components_), spec->replicated());
  auto* raw = values.release();
  root.replicas_.store(raw, std::memory_order_release);
  return *raw;
}

void MeshTensorImpl::join_family(const MeshTensorImpl& other) {
  const MeshTensorImpl& root = other.family();
  if (&root == this) return;
  root.has_aliases_.store(true, std::memory_order_relaxed);
  root_place_ = c10::weak_intrusive_ptr<TensorImpl>::reclaim(
      c10::raw::intrusive_ptr::make_weak(const_cast<MeshTensorImpl*>(&root)));
  root_ = &root;
}

void MeshTensorImpl::share_replica_values(const MeshTensorImpl& base) {
  is_partial_view_ = base.is_partial_view_ || sizes() != base.sizes() || strides() != base.strides() ||
                     storage_offset() != base.storage_offset() || dtype() != base.dtype();
  join_family(base);
}

MeshMeta* MeshTensorImpl::mesh_meta_of_base() const {
  const auto base = root_place_.lock();
  return base ? static_cast<const MeshTensorImpl&>(*base).mesh_meta() : nullptr;
}

void MeshTensorImpl::adopt(const MeshTensorImpl& source) {
  shape_ = source.shape_;
  spec_.store(source.spec_.load(std::memory_order_acquire), std::memory_order_release);
  whole_ = source.whole_;
  components_ = source.components_;
  is_partial_view_ = source.is_partial_view_;
  copied_view = source.copied_view;
}

c10::intrusive_ptr<c10::TensorImpl> MeshTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                            bool allow_metadata_change) const {
  return shallow_copy_and_detach(c10::VariableVersion(version), allow_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> MeshTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                            bool allow_metadata_change) const {
  auto copy = components_.size() == 1
                  ? c10::make_intrusive<MeshTensorImpl>(shape_, spec_.load(std::memory_order_acquire), components_[0])
                  : c10::make_intrusive<MeshTensorImpl>(spec(), components_);
  copy->copied_view = copied_view;
  copy->share_replica_values(*this);
  if (!copy->is_inference()) copy->set_version_counter(std::move(version));
  copy->set_allow_tensor_metadata_change(allow_metadata_change);
  note_made(Tensor(copy));
  return copy;
}

// From now on this tensor shares the memory of `source`. Its former aliases keep the memory that they have; its
// replicas keep their gradients.
void MeshTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& source) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor other(source);
  if (!is_mesh_tensor(other)) {  // a plain tensor is laid out as we are, where it has our rank
    const Tensor value = other.clone();
    const Spec* target = static_cast<int64_t>(spec()->axes.size()) == value.dim()
                             ? intern(shape_, spec()->axes, 0, value.sizes())
                             : intern_replicated(shape_, value.sizes());
    other = make_mesh_tensor(target, cut(value, target));
  }
  const ReplicaValues& before = require_replica_values();  // also for the aliases, of whose family we may be the root
  auto& values = mesh_impl(other).require_replica_values();
  if (&values != &before) values.take_policy_of(before);
  adopt(mesh_impl(other));
  join_family(mesh_impl(other));
  sync_metadata();
  if (MeshMeta* meta = mesh_meta()) meta->follow_memory();
}

const c10::Storage& MeshTensorImpl::storage() const {
  gathered_ = gather(Tensor(c10::intrusive_ptr<TensorImpl>::reclaim_copy(const_cast<MeshTensorImpl*>(this))));
  return gathered_.storage();
}

Tensor make_mesh_tensor(const Spec* spec, Components components) {
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(spec, std::move(components));
  note_made(tensor);
  return tensor;
}

Tensor make_mesh_tensor(const Spec* spec, Tensor buffer) {
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(spec->shape, spec, std::move(buffer));
  note_made(tensor);
  return tensor;
}

Tensor make_mesh_tensor(const MeshShape* shape, Tensor component) {
  if (!shape->one_buffer_when_replicated) {
    const Spec* spec = intern_replicated(shape, component.sizes());
    return make_mesh_tensor(spec, cut(component, spec));
  }
  if (component.device() != shape->home) component = component.to(shape->home);
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(shape, nullptr, std::move(component));
  note_made(tensor);
  return tensor;
}

Tensor distribute_tensor(const Tensor& value, const Layout& layout) {
  if (is_mesh_tensor(value))
    throw Error(ErrorCode::invalid_argument, "distribute_tensor: the value is a mesh tensor already; relayout() it");
  const Spec* spec = spec_of("distribute_tensor", layout, value.sizes());
  if (layout.unreduced())
    throw Error(ErrorCode::invalid_argument, "distribute_tensor: a value is not a sum over devices; drop `unreduced`");
  if (at::GradMode::is_enabled() && value.requires_grad())
    throw Error(
        ErrorCode::failed_precondition,
        "distribute_tensor: the value needs a gradient, which would end here; detach() it, or relayout a mesh tensor");
  ensure_registered();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  // Copies: LibTorch's copy-on-write shares may not be dropped on two threads at once, and the value is the caller's.
  return make_mesh_tensor(spec, own_pieces(value, spec));
}

Tensor local(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor;
  auto& impl = mesh_impl(tensor);
  const ThreadView& view = ThreadView::current();
  if (view.replica < 0) return impl.read()[0];
  require_own_mesh(impl, view);
  if (MeshMeta* variable = variable_of(impl, view)) return variable->leaf(view);
  refuse_lost_gradient(impl);
  auto& values = impl.require_replica_values();
  return impl.is_partial_view() ? values.share_of(impl, view) : values.share(view);
}

c10::ArrayRef<Tensor> replica_components(const Tensor& tensor) {
  auto& impl = mesh_impl(tensor);
  const auto shares = impl.require_replica_values().components();
  MeshMeta* meta = impl.mesh_meta();
  return meta && meta->is_variable() ? meta->leaves() : shares;
}

Layout layout_of(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) throw Error(ErrorCode::invalid_argument, "layout_of: a plain tensor has no layout");
  return mesh_impl(tensor).spec()->layout();
}

}  // namespace tutti
