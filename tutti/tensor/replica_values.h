#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "tutti/tensor/variable_policy.h"

namespace tutti {

using Components = c10::SmallVector<Tensor, 8>;
class MeshTensorImpl;
struct MeshShape;
struct ThreadView;

// What the replicas see of one mesh tensor: for each a leaf tensor of its own autograd graph. The leaves share the
// buffer of the global value, copy-on-write; a replica that writes gets a buffer of its own. In global view a
// replicated value is then what the policy makes of all: on_write the first replica's, on_read their aggregate; with no
// policy declared the mean of floating point numbers, the first replica's integers and booleans. Leaves of an on_read
// variable have buffers of their own from the start.
//
// Threads: acquire() from all replicas at once; read() and write() in global view, when no replica runs.
class ReplicaValues final : public c10::intrusive_ptr_target {
 public:
  // `pieces[i]` is the buffer that replica i shares: all the same one for a replicated value in one buffer.
  ReplicaValues(const MeshShape* shape, Components pieces, bool replicated);

  // From now on replicas have read copies: to write to them is an error.
  void make_read_only() { read_only_ = true; }
  bool read_only() const { return read_only_; }

  // Makes the tensor, new, a variable with this policy: each component has its value, and its name, "w/replica_1".
  void declare(const VariablePolicy& policy, std::string name);
  const std::optional<VariablePolicy>& policy() const { return policy_; }
  // "the variable 'w' of shape [2]", for messages
  std::string describe() const;

  // The leaf of a replica, with the hooks and requires_grad of `variable`. Throws: failed_precondition for a variable
  // that lies on another mesh than the replica.
  const Tensor& acquire(const MeshTensorImpl& variable, const ThreadView& view);
  // The same view of a replica's leaf that `part`, a partial view of the variable, is of the global value. No gradient
  // flows. Throws: as acquire; unimplemented where the variable is sharded or `part` has another dtype.
  Tensor acquire_view(const MeshTensorImpl& part, const ThreadView& view);
  // One per replica; empty as long as no replica looked.
  c10::ArrayRef<Tensor> leaves() const { return leaves_; }

  // In global view: the leaves with their current values, for a caller who may write them at once.
  c10::ArrayRef<Tensor> components();
  // Whether a replica may have another value than the others.
  bool diverged() const;

  // Brings what replicas wrote into the global value; they keep theirs. Throws: invalid_argument on_read without
  // aggregation.
  void read();
  // Takes the leaves' shares away before the global value is written, so that the write copies nothing. Leaves of a sum
  // that is on_read then have a share of the value each. Throws: as read.
  void write();
  // The same where all of the value will be written: what the replicas wrote is dropped.
  void overwrite();
  // The variable has got other buffers.
  void rebase(Components pieces, bool replicated);

  // To be called whenever replicas start to run, or go on after a meeting: from now on they may write.
  static void replicas_start();

 private:
  const Tensor& leaf_of(const MeshTensorImpl& variable, const ThreadView& view);
  void make_live();
  void share_all(int64_t terms);
  void take_aggregate();
  void drop_all();
  bool on_read() const { return policy_ && policy_->on_read(); }
  bool is_sum() const { return on_read() && policy_->aggregation == VariableAggregation::sum; }
  bool written(size_t replica) const { return leaves_[replica].storage().data() != shared_data_[replica]; }
  VariableAggregation aggregation() const;

  const MeshShape* shape_;
  Components pieces_;
  bool replicated_;
  std::optional<VariablePolicy> policy_;
  std::string name_;
  bool read_only_ = false;
  Components sources_;  // what the leaves share: the pieces, or their copies on the replicas' own devices
  Components leaves_;
  c10::SmallVector<c10::Storage, 8> blanks_;      // what each leaf holds between two values
  c10::SmallVector<const void*, 8> shared_data_;  // where each leaf's buffer was when it was shared; null: it never was
  std::mutex mutex_;                              // guards the making of leaves
  std::atomic<bool> live_{false};                 // the leaves hold the current value
  uint64_t read_epoch_ = 0;                       // the run after which read() last looked
};

}  // namespace tutti
