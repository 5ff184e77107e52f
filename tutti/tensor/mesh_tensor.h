#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/OptionalArrayRef.h>

#include <memory>

#include "tutti/tensor/replica_values.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/tensor_meta.h"
#include "tutti/tensor/view.h"

namespace tutti {

using Tensor = at::Tensor;
class CallRecorder;
class CopiedView;
class MeshMeta;

// An at::Tensor of global sizes whose value lies in the components that its spec names. It has no storage; device() is
// the first component's, and in replica view the replica's own. Threads: as for any tensor, one writer or many readers.
class MeshTensorImpl final : public c10::TensorImpl {
 public:
  // The value of `components`, which are plain and equal in dtype, laid out as `spec` says. `strides`: of the whole
  // value, as LibTorch's tensor would have them, however the components lie in memory; without them those of a dense
  // whole that has its axes in the components' order.
  MeshTensorImpl(const Spec* spec, Components components, at::OptionalIntArrayRef strides = {});
  // A value none of whose components is in this process.
  MeshTensorImpl(const Spec* spec, const TensorMeta& meta);
  // A value in one buffer. With no spec it is replicated, and its spec is made when somebody asks for it.
  MeshTensorImpl(const MeshShape* shape, const Spec* spec, Tensor component);

  const MeshShape* mesh_shape() const { return shape_; }
  const Spec* spec() const;
  // Whether this is a replicated value in one buffer that lies in memory as the value's strides say, for which an op is
  // simply one call on that buffer.
  bool whole() const { return whole_; }

  // What the components have in common, as it was when they were last written.
  TensorMeta meta() const { return {dtype(), device_default(), key_set_ & kLazyBits, at::DimVector(strides())}; }

  // The value in global view: what the replicas wrote is aggregated first. Throws, as the next two do: unimplemented
  // where a component is in another process.
  const Components& read();
  // The same for an op that will write it: replicas lose their shares and take the new value when they next look.
  const Components& write();
  // The same for an op that will write all of it: what the replicas wrote is dropped, not aggregated.
  const Components& overwrite();
  // What read and write give, where components may be in other processes; these are undefined. Throw: unimplemented
  // where no component is in this process.
  const Components& read_here();
  const Components& write_here();
  // Replaces the value. Sizes may change.
  void assign(const Spec* spec, Components components, at::OptionalIntArrayRef strides = {});
  // Takes over the sizes and the dtype that an op has changed in the components.
  void sync_metadata();

  // Before an op changes the geometry in place: what aliases, and the replicas of all, see keeps its own.
  void own_geometry();
  // Takes the place of `view`, a view of this tensor.
  void become(const MeshTensorImpl& view);
  // After the geometry changed in place: replicas see the same. `as_view`: in the same memory.
  void update_replica_values(bool as_view);

  // What replica view sees of the memory of this tensor and of all its aliases, made on demand; null as long as no
  // replica looked.
  ReplicaValues* replica_values() const { return family().replicas_.load(std::memory_order_acquire); }
  ReplicaValues& require_replica_values() const;
  // Makes this tensor an alias of `base`, whose memory it shares: writing through it tells the replicas of the base.
  void share_replica_values(const MeshTensorImpl& base);
  // Whether one is a view or an alias of the other, or both are of a third.
  bool shares_memory_with(const MeshTensorImpl& other) const { return &family() == &other.family(); }
  // Whether another one shares its memory, or did.
  bool has_aliases() const { return root_ || has_aliases_.load(std::memory_order_relaxed); }
  // Whether a tensor of which this is an alias is still there.
  bool is_alias() const { return root_ && !root_place_.expired(); }
  // Whether it shows another part or order of its base's elements.
  bool is_partial_view() const { return is_partial_view_; }
  // Whether it is a view of fewer or more elements than its base has. LibTorch's may begin anywhere in that one's
  // memory.
  bool is_part() const { return is_part_; }

  // The state of a variable; null for other tensors. Who makes a tensor a variable sets it.
  MeshMeta* mesh_meta() const { return meta_.load(std::memory_order_acquire); }
  void set_mesh_meta(MeshMeta* meta) { meta_.store(meta, std::memory_order_release); }
  // The state of the tensor of which this is an alias; null where that is gone or no variable.
  MeshMeta* mesh_meta_of_base() const;

  // After an op wrote the components: takes over their metadata, writes a copied view to its tensor, and gives the new
  // value to components that a program holds.
  void finish_write();

  // How often this tensor or an alias of it was written in global view, by whatever name: data() has no version in
  // common with its tensor.
  uint64_t writes() const { return family().writes_.load(std::memory_order_relaxed); }

  // For a view that had to be copied, and for views of it: where it came from.
  std::shared_ptr<CopiedView> copied_view;
  // As they are: what the replicas wrote is not looked at.
  const Components& components() const { return components_; }

  // A view made in inference mode has the keys of its base, but for a conjugation of its own.
  void take_keys(const MeshTensorImpl& base);

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& source) override;
  // Of the whole value, for torch::save, which asks several times. Of several pieces it is a copy, which cannot be
  // written and is kept until this tensor is written, or is asked for again after an alias or a replica may have been.
  const c10::Storage& storage() const override;
  const char* tensorimpl_type_name() const override { return "MeshTensor"; }
  void release_resources() override;
  ~MeshTensorImpl() override;

 private:
  c10::Device device_custom() const override;
  void require_all_components() const;
  void tell(CallRecorder& recorder, bool writes);
  void require_components() const;
  void drop_others();
  void take_metadata(const TensorImpl& buffer);
  void take_geometry_of(const TensorImpl& buffer);
  void take_geometry(at::OptionalIntArrayRef strides);
  void settle_lazy_bits();
  void adopt(const MeshTensorImpl& source);
  const MeshTensorImpl& family() const { return root_ ? *root_ : *this; }
  void join_family(const MeshTensorImpl& other);
  void forget_meta();

  const MeshShape* shape_;
  mutable std::atomic<const Spec*> spec_;  // null until asked for, when whole
  bool whole_;
  bool all_here_ = true;         // no component is in another process
  bool lies_otherwise_ = false;  // one buffer, with other strides than the value's
  bool is_partial_view_ = false;
  bool is_part_ = false;
  Components components_;
  // The tensor whose replicas_ stands for the whole family of aliases, which hold it weakly: it may be gone, but its
  // place is kept. Null: this tensor.
  const MeshTensorImpl* root_ = nullptr;
  c10::weak_intrusive_ptr<TensorImpl> root_place_{c10::intrusive_ptr<TensorImpl>()};
  mutable std::atomic<bool> has_aliases_{false};
  mutable std::atomic<uint64_t> writes_{0};                // of the family
  mutable std::atomic<ReplicaValues*> replicas_{nullptr};  // owns a reference
  std::atomic<MeshMeta*> meta_{nullptr};
  mutable Tensor gathered_;               // keeps alive what storage() returned
  mutable uint64_t gathered_writes_ = 0;  // when it was gathered
};

inline bool is_mesh_tensor(const Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(kMeshKey);
}
// Requires is_mesh_tensor.
inline MeshTensorImpl& mesh_impl(const Tensor& tensor) {
  return static_cast<MeshTensorImpl&>(*tensor.unsafeGetTensorImpl());
}

// Components in memory that LibTorch did not allocate (from_blob, a file's) are copied: it cannot be shared
// copy-on-write.
Tensor make_mesh_tensor(const Spec* spec, Components components, at::OptionalIntArrayRef strides = {});
// The value in one buffer. Requires: spec->num_components == 1.
Tensor make_mesh_tensor(const Spec* spec, Tensor buffer);
Tensor make_mesh_tensor(const MeshShape* shape, Tensor component);
// A plain operand of one call, which is not written: in the memory where it lies.
Tensor borrow_as_replicated(const MeshShape* shape, const Tensor& operand);

// The mesh tensor of `value` in `layout`. Shapes: value is global. The value is copied.
// Throws: invalid_argument for a rank that differs from the layout's, or a mesh tensor; failed_precondition for a value
// that needs a gradient, which would end here.
Tensor distribute_tensor(const Tensor& value, const Layout& layout);
// The plain tensor of global sizes; differentiable. Where one buffer holds the value it is that buffer: clone() it to
// keep it beside later writes.
Tensor gather(const Tensor& tensor);
// The same value in another layout of the same mesh; differentiable, also twice. A value of its own, which a write to
// the tensor does not reach, nor the other way round; merged buffers are shared until then. The tensor itself where it
// lies so already. A plain tensor is distributed. Throws: invalid_argument for another mesh or rank, or a sum over a
// mesh dimension over which the tensor is none; failed_precondition in a replica.
Tensor relayout(const Tensor& tensor, const Layout& layout);
Layout layout_of(const Tensor& tensor);
// In replica view this replica's component; in global view the components' first. A plain tensor is returned as it is.
Tensor local(const Tensor& tensor);
// Of a mesh tensor in global view: what each replica has of it, up to date; what is written to one is looked at when
// the tensor is next read.
c10::ArrayRef<Tensor> replica_components(const Tensor& tensor);

}  // namespace tutti
