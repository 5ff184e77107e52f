#include "tutti/tensor/mesh_tensor.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/away.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copied_view.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/remote_reads.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/strides.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

c10::DispatchKeySet keys_for(c10::Device device, c10::DispatchKeySet bits) {
  const auto type = at::autocast::is_autocast_available(device.type()) ? device.type() : c10::kCPU;
  const auto autocast = at::autocast::get_autocast_dispatch_key_from_device_type(type);
  return c10::DispatchKeySet({kMeshKey, kFrontKey, autocast}) | (bits & kLazyBits);
}
c10::DispatchKeySet keys_for(const Tensor& component) { return keys_for(component.device(), component.key_set()); }

// The component, or a copy of it in memory that LibTorch allocated.
Tensor owned_memory(Tensor component) {
  if (!component.has_storage() || component.storage().allocator()) return component;
  return component.clone();
}

// The spec of a buffer that may have got other sizes than `spec` says; null stays null.
const Spec* spec_for(const Spec* spec, const Tensor& buffer) {
  if (!spec || buffer.sizes() == spec->sizes) return spec;
  return spec->rank() == buffer.dim() ? intern(spec->shape, spec->axes, spec->unreduced, buffer.sizes())
                                      : intern_replicated(spec->shape, buffer.sizes());
}

// After an op wrote it. Throws: unimplemented where that made a copied view larger.
void refuse_growth(const MeshTensorImpl& written) {
  if (!written.copied_view || !written.is_part() || written.components().size() != 1) return;
  const Tensor& copy = written.components()[0];
  if (copy.numel() <= written.numel()) return;
  const at::DimVector larger(copy.sizes());
  copy.unsafeGetTensorImpl()->set_sizes_and_strides(written.sizes(), written.strides());
  written.copied_view->forget_write();
  refuse_other_shape(larger, written.sizes());
}

}  // namespace

MeshTensorImpl::MeshTensorImpl(const Spec* spec, Components components, at::OptionalIntArrayRef strides)
    : TensorImpl(keys_for(first_here(components)), first_here(components).dtype(), first_here(components).device()),
      shape_(spec->shape),
      spec_(spec),
      whole_(spec->replicated() && spec->num_components == 1),
      components_(std::move(components)) {
  drop_others();
  take_geometry(strides);
  set_storage_access_should_throw();
  if (components_.size() > 1 && !shape_->mesh.shares_memory()) set_custom_device(true);  // who asks gets another answer
}

MeshTensorImpl::MeshTensorImpl(const Spec* spec, const TensorMeta& meta)
    : TensorImpl(keys_for(meta.device, meta.bits), meta.dtype, meta.device),
      shape_(spec->shape),
      spec_(spec),
      whole_(false),
      all_here_(false) {
  set_sizes_and_strides(spec->sizes, meta.strides);
  set_storage_access_should_throw();
}

MeshTensorImpl::MeshTensorImpl(const MeshShape* shape, const Spec* spec, Tensor component)
    : TensorImpl(keys_for(component), component.dtype(), component.device()),
      shape_(shape),
      spec_(spec_for(spec, component)),
      whole_(!spec || spec->replicated()) {
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

void MeshTensorImpl::require_components() const {
  if (components_.empty())
    throw Error(ErrorCode::unimplemented,
                str("a tensor of shape ", str_list(sizes()), " with the layout ", spec()->layout().to_string(),
                    " has no component in this process, and ops on such tensors are not there yet"));
}

void MeshTensorImpl::require_all_components() const {
  require_components();
  if (!all_here_)
    throw Error(ErrorCode::unimplemented,
                str("a tensor of shape ", str_list(sizes()), " with the layout ", spec()->layout().to_string(),
                    " lies in several processes, and what was called is for values that are whole in each; gather() it "
                    "or relayout() it to a replicated layout"));
}

void MeshTensorImpl::tell(CallRecorder& recorder, bool writes) {
  require_all_components();
  recorder.global_view(*this, writes);
}

namespace {

// A value that lies on devices that LibTorch does not know comes home before it is looked at.
void come_home(MeshTensorImpl& tensor, bool value_counts) {
  if (any_value_is_away() && bring_home(tensor.components(), value_counts)) tensor.finish_write();
}

}  // namespace

const Components& MeshTensorImpl::read() {
  if (!all_here_) require_all_components();
  return read_here();
}

const Components& MeshTensorImpl::read_here() {
  require_components();
  come_home(*this, /*value_counts=*/true);
  if (auto* values = replica_values()) values->read();
  if (copied_view) copied_view->refresh();
  if (auto* recorder = CallRecorder::current()) tell(*recorder, /*writes=*/false);
  return components_;
}

const Components& MeshTensorImpl::write() {
  if (!all_here_) require_all_components();
  return write_here();
}

const Components& MeshTensorImpl::write_here() {
  require_components();
  come_home(*this, /*value_counts=*/true);
  gathered_.reset();
  if (copied_view) copied_view->refresh();
  if (auto* values = replica_values()) values->write();
  if (auto* recorder = CallRecorder::current()) tell(*recorder, /*writes=*/true);
  return components_;
}

const Components& MeshTensorImpl::overwrite() {
  require_all_components();
  come_home(*this, /*value_counts=*/false);
  gathered_.reset();
  if (auto* values = replica_values()) values->overwrite();
  if (auto* recorder = CallRecorder::current()) tell(*recorder, /*writes=*/true);
  return components_;
}

void MeshTensorImpl::finish_write() {
  refuse_growth(*this);
  sync_metadata();
  family().writes_.fetch_add(1, std::memory_order_relaxed);
  if (copied_view) copied_view->write_back();
  if (auto* values = replica_values()) values->refresh_held();
}

void MeshTensorImpl::assign(const Spec* spec, Components components, at::OptionalIntArrayRef strides) {
  gathered_.reset();
  spec_.store(spec, std::memory_order_release);
  whole_ = spec->replicated() && spec->num_components == 1;
  components_ = std::move(components);
  drop_others();
  take_geometry(strides);
}

// Of new components, those of other processes.
void MeshTensorImpl::drop_others() {
  if (shape_->divided())
    for (size_t i = 0; i < components_.size(); ++i)
      if (!spec()->is_here(static_cast<int>(i))) components_[i].reset();
  all_here_ = all_here(components_);
}

// The geometry of the one buffer. LibTorch's own copy of it computes nothing anew, but takes a sparse layout with it.
void MeshTensorImpl::take_metadata(const TensorImpl& buffer) {
  if (buffer.layout() == at::kStrided && !buffer.is_wrapped_number())
    copy_generic_tensor_metadata(&buffer, this);
  else
    take_geometry_of(buffer);
}

// A sparse gradient looks like a dense one: LibTorch keeps such a one as it is, and would copy another.
void MeshTensorImpl::take_geometry_of(const TensorImpl& buffer) {
  if (buffer.layout() == at::kStrided)
    set_sizes_and_strides(buffer.sizes(), buffer.strides(), buffer.storage_offset());
  else
    set_sizes_contiguous(buffer.sizes());
}

void MeshTensorImpl::sync_metadata() {
  if (components_.empty()) return;  // who has them tells what an op made of them
  for (Tensor& component : components_)
    if (component.has_storage() && !component.storage().allocator()) component = owned_memory(component);
  settle_lazy_bits();
  const Tensor& first = first_here(components_);
  if (components_.size() == 1 && !(lies_otherwise_ && first.sizes() == sizes())) {  // its geometry is ours
    const Spec* spec = spec_.load(std::memory_order_acquire);
    if (const Spec* now = spec_for(spec, first); now != spec) spec_.store(now, std::memory_order_release);
    take_geometry_of(*first.unsafeGetTensorImpl());
    whole_ = whole_ || (lies_otherwise_ && spec->replicated());
    lies_otherwise_ = false;
  }
  data_type_ = first.dtype();
}

// Of new components.
void MeshTensorImpl::take_geometry(at::OptionalIntArrayRef strides) {
  lies_otherwise_ = false;
  sync_metadata();
  if (components_.empty()) return;
  const Spec* spec = spec_.load(std::memory_order_acquire);
  if (components_.size() > 1) {
    set_sizes_and_strides(spec->sizes, strides ? *strides : TensorMeta::of(*spec, first_here(components_)).strides);
  } else if (strides && !are_same_strides(sizes(), this->strides(), *strides)) {
    set_sizes_and_strides(spec->sizes, *strides, 0);
    lies_otherwise_ = true;
    whole_ = false;
  }
}

// Where components differ in what they have yet to compute, all compute it.
void MeshTensorImpl::settle_lazy_bits() {
  const auto bits = [](const Tensor& component) { return component.key_set() & kLazyBits; };
  const c10::DispatchKeySet first = bits(first_here(components_));
  const auto differs = [&](const Tensor& component) { return component.defined() && bits(component) != first; };
  if (std::any_of(components_.begin(), components_.end(), differs))
    for (Tensor& component : components_)
      if (component.defined()) component = component.resolve_conj().resolve_neg();
  key_set_ = (key_set_ - kLazyBits) | bits(first_here(components_));
}

void MeshTensorImpl::take_keys(const MeshTensorImpl& base) {
  key_set_ = (base.key_set_ - kLazyBits) | (key_set_ & kLazyBits);
}

void MeshTensorImpl::own_geometry() {
  if (all_here_ && has_aliases()) require_replica_values();
  for (Tensor& component : components_)
    if (component.defined()) component = at::alias(component);
}

void MeshTensorImpl::become(const MeshTensorImpl& view) {
  copied_view = view.copied_view;
  is_partial_view_ = is_partial_view_ || view.is_partial_view_;
  is_part_ = is_part_ || view.is_part_;
  assign(view.spec(), view.components_, view.strides());
}

void MeshTensorImpl::update_replica_values(bool as_view) {
  const ReplicaValues* before = replica_values();
  MeshMeta* meta = mesh_meta();
  if (!before && !meta) return;
  if (as_view) {
    is_partial_view_ = is_partial_view_ || before;
    if (meta) meta->follow_memory();
    return;
  }
  const Tensor other = make_mesh_tensor(spec(), components_, strides());  // the first of a family of its own
  auto& values = mesh_impl(other).require_replica_values();
  if (before) values.take_policy_of(*before);
  join_family(mesh_impl(other));
  if (meta) meta->follow_memory();
}

ReplicaValues& MeshTensorImpl::require_replica_values() const {
  if (auto* values = replica_values()) return *values;
  family().require_all_components();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (auto* values = replica_values()) return *values;
  const MeshTensorImpl& root = family();
  const Spec* spec = root.spec();
  auto values = c10::make_intrusive<ReplicaValues>(shape_, replica_pieces(spec, root.components_), spec->replicated(),
                                                   root.version_counter());
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
  is_part_ = base.is_part_ || numel() != base.numel();
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
  all_here_ = source.all_here_;
  components_ = source.components_;
  is_partial_view_ = source.is_partial_view_;
  is_part_ = source.is_part_;
  copied_view = source.copied_view;
  gathered_.reset();  // of what it was
}

c10::intrusive_ptr<c10::TensorImpl> MeshTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                            bool allow_metadata_change) const {
  return shallow_copy_and_detach(c10::VariableVersion(version), allow_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> MeshTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                            bool allow_metadata_change) const {
  auto copy = components_.empty() ? c10::make_intrusive<MeshTensorImpl>(spec(), meta())
              : components_.size() == 1 && !lies_otherwise_
                  ? c10::make_intrusive<MeshTensorImpl>(shape_, spec_.load(std::memory_order_acquire), components_[0])
                  : c10::make_intrusive<MeshTensorImpl>(spec(), components_, strides());
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
    other = make_mesh_tensor(target, cut(value, target), value.strides());
  }
  const ReplicaValues& before = require_replica_values();  // also for the aliases, of whose family we may be the root
  auto& values = mesh_impl(other).require_replica_values();
  if (&values != &before) values.take_policy_of(before);
  adopt(mesh_impl(other));
  join_family(mesh_impl(other));
  take_geometry(other.strides());
  if (MeshMeta* meta = mesh_meta()) meta->follow_memory();
}

namespace {

Tensor bytes_of(const c10::Storage& storage) {
  const Tensor nothing = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
  return nothing.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

bool have_same_bytes(const c10::Storage& a, const c10::Storage& b) {
  if (a.is_alias_of(b)) return true;
  const NotRecorded no_call_of_the_program;
  return a.nbytes() == b.nbytes() && at::equal(bytes_of(a), bytes_of(b));
}

// For whom components do not know: not to be written, and so in no component's memory.
Tensor read_only(Tensor gathered, const Components& components) {
  const NotRecorded no_call_of_the_program;
  if (std::ranges::any_of(components, [&](const Tensor& component) {
        return component.storage().unsafeGetStorageImpl() == gathered.storage().unsafeGetStorageImpl();
      }))
    gathered = make_over(bytes_of(gathered.storage()).clone().storage(), gathered);
  gathered.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  return gathered;
}

}  // namespace

const c10::Storage& MeshTensorImpl::storage() const {
  const auto* values = replica_values();
  const bool counts = !(values && values->is_live());  // what replicas write is not counted
  const bool was_written = !gathered_.defined() || gathered_writes_ != writes();
  if (counts && !was_written) return gathered_.storage();
  const Tensor self(c10::intrusive_ptr<TensorImpl>::reclaim_copy(const_cast<MeshTensorImpl*>(this)));
  const at::NoGradGuard no_grad;
  Tensor gathered = laid_out(gather(self), strides());
  if (gathered.storage_offset() != storage_offset())  // of a view of the first of several equal buffers
    gathered = laid_out(gathered.clone(at::MemoryFormat::Contiguous), strides());
  // Who tells tensors apart by their storages, as torch::save() does, finds the same one as long as it is true.
  if (!was_written && have_same_bytes(gathered_.storage(), gathered.storage())) return gathered_.storage();
  gathered_ = components_.size() > 1 ? read_only(std::move(gathered), components_) : std::move(gathered);
  gathered_writes_ = writes();
  return gathered_.storage();
}

Tensor make_mesh_tensor(const Spec* spec, Components components, at::OptionalIntArrayRef strides) {
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(spec, std::move(components), strides);
  note_made(tensor);
  return tensor;
}

Tensor make_mesh_tensor(const Spec* spec, Tensor buffer) {
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(spec->shape, spec, owned_memory(std::move(buffer)));
  note_made(tensor);
  return tensor;
}

Tensor make_mesh_tensor(const MeshShape* shape, Tensor component) {
  if (!shape->one_buffer_when_replicated) {
    const Spec* spec = intern_replicated(shape, component.sizes());
    return make_mesh_tensor(spec, cut(component, spec));
  }
  if (component.device() != shape->home) component = component.to(shape->home);
  Tensor tensor = at::detail::make_tensor<MeshTensorImpl>(shape, nullptr, owned_memory(std::move(component)));
  note_made(tensor);
  return tensor;
}

Tensor borrow_as_replicated(const MeshShape* shape, const Tensor& operand) {
  const bool is_number = operand.unsafeGetTensorImpl()->is_wrapped_number();
  if (!shape->one_buffer_when_replicated && is_number) {  // it stays on the host, where every device's kernels take it
    const Spec* spec = intern_replicated(shape, {});
    return at::detail::make_tensor<MeshTensorImpl>(spec,
                                                   Components(static_cast<size_t>(spec->num_components), operand));
  }
  if (!shape->one_buffer_when_replicated) return make_mesh_tensor(shape, operand);
  return at::detail::make_tensor<MeshTensorImpl>(
      shape, nullptr, is_number || operand.device() == shape->home ? operand : operand.to(shape->home));
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
  // Copies: the caller may drop the value on any thread (copy_on_write.h).
  return make_mesh_tensor(spec, own_pieces(value, spec), strides_of_copy(value));
}

namespace {

Tensor seen_in_replica(MeshTensorImpl& impl, const ThreadView& view) {
  come_home(impl, /*value_counts=*/true);
  if (MeshMeta* variable = variable_of(impl, view)) return variable->leaf(view);
  refuse_lost_gradient(impl);
  auto& values = impl.require_replica_values();
  return impl.is_partial_view() ? values.share_of(impl, view) : values.share(view);
}

}  // namespace

Tensor local(const Tensor& tensor) {
  if (RemoteReads* const reads = RemoteReads::current(); reads && is_mesh_tensor(tensor)) reads->read(tensor);
  return local_unread(tensor);
}

Tensor local_unread(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor;
  auto& impl = mesh_impl(tensor);
  const ThreadView& view = ThreadView::current();
  if (view.replica < 0) return impl.read()[0];
  require_own_mesh(impl, view);
  auto* recorder = CallRecorder::current();
  if (!recorder) return seen_in_replica(impl, view);
  const UnrecordedGuard looks;
  const MeshShape& shape = *impl.mesh_shape();
  const auto piece = static_cast<size_t>(shape.project(view.replica, shape.all, impl.spec()->stored));
  return recorder->replica_view(tensor, impl.components()[piece], [&] { return seen_in_replica(impl, view); });
}

c10::ArrayRef<Tensor> replica_components(const Tensor& tensor) {
  auto& impl = mesh_impl(tensor);
  come_home(impl, /*value_counts=*/true);
  const auto shares = impl.require_replica_values().components();
  MeshMeta* meta = impl.mesh_meta();
  return meta && meta->is_variable() ? meta->leaves() : shares;
}

Layout layout_of(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) throw Error(ErrorCode::invalid_argument, "layout_of: a plain tensor has no layout");
  return mesh_impl(tensor).spec()->layout();
}

}  // namespace tutti
