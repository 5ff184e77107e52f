#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <mutex>

namespace tutti {

using Tensor = at::Tensor;
using Components = c10::SmallVector<Tensor, 8>;
class MeshTensorImpl;
struct MeshShape;

// What the replicas see of one mesh tensor: for each a leaf tensor of its own autograd graph. The leaves share the
// buffer of the global value, copy-on-write; a replica that writes gets a buffer of its own. In global view a
// replicated value is then the aggregate of all: the mean of floating point numbers, the first replica's integers and
// booleans.
//
// Threads: acquire() from all replicas at once; read() and write() in global view, when no replica runs.
class ReplicaValues final : public c10::intrusive_ptr_target {
 public:
  // `pieces[i]` is the buffer that replica i shares: all the same one for a replicated value in one buffer.
  ReplicaValues(Components pieces, bool replicated);

  // From now on replicas have read copies: to write to them is an error.
  void make_read_only() { read_only_ = true; }
  bool read_only() const { return read_only_; }

  // The leaf of a replica, with the hooks and requires_grad of `variable`.
  const Tensor& acquire(const MeshTensorImpl& variable, int replica);
  // One per replica; empty as long as no replica looked.
  c10::ArrayRef<Tensor> leaves() const { return leaves_; }

  // Brings what replicas wrote into the global value; they keep theirs.
  void read();
  // Takes the leaves' shares away before the global value is written, so that the write copies nothing.
  void write();
  // The variable has got other buffers.
  void rebase(Components pieces, bool replicated);

  // To be called whenever replicas start to run: from now on they may write.
  static void replicas_start();

 private:
  void share_all(const MeshShape& shape);
  void drop_all();
  bool written(size_t replica) const { return leaves_[replica].storage().data() != shared_data_[replica]; }
  bool leaves_agree() const;
  Tensor aggregate() const;

  Components pieces_;
  bool replicated_;
  bool read_only_ = false;
  Components sources_;  // what the leaves share: the pieces, or their copies on the replicas' own devices
  Components leaves_;
  c10::SmallVector<const void*, 8> shared_data_;  // where each leaf's buffer was when it was shared
  std::mutex mutex_;                              // guards the making of leaves
  std::atomic<bool> live_{false};                 // the leaves hold the current value
  uint64_t read_epoch_ = 0;                       // the run after which read() last looked
};

}  // namespace tutti
