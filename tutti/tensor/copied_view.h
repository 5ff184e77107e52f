#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

// A view that had to be copied, because no piece of the tensor holds what it shows: where it came from, so that it
// behaves as a view. Views of the view share it. Threads: as for the tensor.
class CopiedView {
 public:
  // The result of a view op (of a list, the item; -1: not a list) on `arguments`, the first of which is the tensor.
  CopiedView(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments, int item, const MeshTensorImpl& view);

  // Before the view is read or written: takes what was written to the tensor since.
  void refresh();
  // After the view was written: writes it to the tensor, which is gathered for that.
  void write_back();
  // Instead: the view takes the tensor's elements again when it is next used.
  void forget_write();

  // The tensor that was viewed, and the same view of one that stands in for it.
  const Tensor& viewed() const { return arguments_[0].toTensor(); }
  Tensor view_of(const Tensor& stand_in) const;

 private:
  Tensor result_of(std::vector<at::IValue> arguments) const;
  const MeshTensorImpl& source() const { return mesh_impl(viewed()); }
  bool is_stale() const;

  c10::OperatorHandle op_;
  std::vector<at::IValue> arguments_;
  int item_;
  const Spec* spec_;
  TensorMeta meta_;
  Components copy_;
  std::mutex mutex_;
  // The tensor's version and writes when it and the copy last agreed; guarded by mutex_.
  int64_t version_;
  uint64_t writes_;
  bool is_spoilt_ = false;  // guarded by mutex_
};

// Of a result that was to be written to a view of separate buffers: what LibTorch would write behind the view is the
// tensor's that was viewed. Throws: unimplemented.
[[noreturn]] void refuse_other_shape(at::IntArrayRef result, at::IntArrayRef view);

}  // namespace tutti
