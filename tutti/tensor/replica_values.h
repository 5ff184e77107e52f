#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tensor/components.h"
#include "tutti/tensor/replica_clock.h"
#include "tutti/tensor/variable_policy.h"

namespace tutti {

class MeshTensorImpl;
struct MeshShape;
struct ThreadView;

// What the replicas see of the memory of one mesh tensor and of all its aliases. Each replica has a share of the global
// buffer, copy-on-write: a replica that writes gets a buffer of its own. Three kinds of tensors lie in a share: the
// constant that a replica sees of every alias, share(); the leaf of each variable (VariableLeaves); views of part of
// it. What is written to one of them shows in the others, and they have one version, which goes up.
//
// In global view a replicated value is made of all shares as the policy says: on_write takes the first replica's,
// on_read aggregates them. Without a policy it is the mean of floating point numbers, and the first replica's integers
// and booleans. Of a mesh that several processes have a copy of (across_processes.h), the replicas of all processes
// count, and every process makes the first read of what they wrote.
// Shares of an on_read variable are buffers of their own from the start.
//
// Threads: any. What replicas write while they compute, other threads see when the replicas have met or ended.
class ReplicaValues final : public ReplicaClock::Watcher {
 public:
  // `pieces[i]` is the buffer that replica i shares: all the same one for a replicated value in one buffer. `version`:
  // of the tensor, which its aliases have too.
  ReplicaValues(const MeshShape* shape, Components pieces, bool replicated, c10::VariableVersion version);

  // From now on replicas have read copies: to write to them is an error.
  void make_read_only() { read_only_.store(true, std::memory_order_relaxed); }
  bool read_only() const { return read_only_.load(std::memory_order_relaxed); }

  // Makes the tensor, new, a variable with this policy: each component has its value, and its name, "w/replica_1".
  void declare(const VariablePolicy& policy, std::string name);
  // For a variable that moves to this memory. Does nothing where a policy was declared already.
  void take_policy_of(const ReplicaValues& other);
  const std::optional<VariablePolicy>& policy() const { return policy_; }
  // "the variable 'w' of shape [2]", for messages
  std::string describe() const;

  // Where replicas have written, by whatever name, gives the tensors that lie here another version: so LibTorch refuses
  // graphs of global view that saved the former value.
  void replicas_stopped() noexcept override;

  // What a replica sees of a tensor that is no variable.
  const Tensor& share(const ThreadView& view);
  // The same of one that shows a part or another order of the elements. Throws: unimplemented where no piece of the
  // value holds them, or for another dtype.
  Tensor share_of(const MeshTensorImpl& part, const ThreadView& view);

  // Whether the shares hold the current value, and a replica has looked in this period.
  bool is_current() const;
  // Whether replicas have shares, to which they may write.
  bool is_live() const { return live_.load(std::memory_order_acquire); }
  // Brings the shares up to date, and in a replica's view notes that a replica has looked.
  void look();

  // Leaves over the shares, with the geometry of `variable`. Throws: as share_of.
  Components make_leaves(const MeshTensorImpl& variable);
  // Leaves that lie in the shares get every buffer that the shares get, until they are removed. `version`: their
  // variable's.
  void add_leaves(const Components& leaves, c10::VariableVersion version);
  void remove_leaves(const Components& leaves);
  // Puts a buffer with the value of `data`, of the same sizes and dtype, in the place of a replica's own.
  void replace(const Tensor& data, const ThreadView& view);

  // In global view: the shares with their current values, for a caller who may write them at once.
  c10::ArrayRef<Tensor> components();
  // Whether a replica may have another value than the others.
  bool diverged() const;

  // Brings what replicas wrote into the global value; they keep theirs. While they compute it does nothing. Throws:
  // invalid_argument on_read without aggregation.
  void read();
  // To be called before the global value is written: puts the global buffer itself in the place of each share, until
  // refresh_held(), so that the write copies nothing. Of a variable that is a sum when read each replica then begins
  // with a term of the new value. Throws: as read; failed_precondition while replicas that use the value compute.
  void write();
  // The same where all of the value will be written: what the replicas wrote is dropped.
  void overwrite();
  // After such a write: where a program holds a share, they take the new value at once.
  void refresh_held();

 private:
  void share_all(int64_t terms);
  void give(size_t replica, const c10::Storage& storage);
  Tensor make_over_share(size_t replica, const Tensor& geometry) const;
  const Tensor& piece_of(const MeshTensorImpl& tensor, size_t replica) const;
  void take_aggregate();
  Components shares_of_all_processes() const;
  void drop_all();
  void refuse_while_in_use() const;
  bool in_use() const;
  bool held() const;
  uint64_t count_writes() const;
  bool on_read() const { return policy_ && policy_->on_read(); }
  bool is_sum() const { return on_read() && policy_->aggregation == VariableAggregation::sum; }
  bool written(size_t replica) const { return shares_[replica].storage().data() != shared_data_[replica]; }
  VariableAggregation aggregation() const;
  int64_t num_terms() const;

  struct VariableLeaves {
    const Components* leaves;
    c10::VariableVersion version;
  };

  const MeshShape* shape_;
  Components pieces_;
  bool replicated_;
  std::optional<VariablePolicy> policy_;
  std::string name_;
  std::atomic<bool> read_only_{false};

  std::recursive_mutex mutex_;  // guards what follows while replicas may look
  Components sources_;          // what is shared: the pieces, or their copies on the replicas' devices
  Components shares_;           // for each replica; empty as long as none looked
  c10::VariableVersion version_;
  std::vector<VariableLeaves> leaves_;            // of the variables that lie here
  c10::SmallVector<const void*, 8> shared_data_;  // where each share's buffer was when it was shared; null: nowhere
  uint64_t writes_ = 0;                           // of all shares, when replicas began to compute
  std::atomic<bool> live_{false};                 // the shares hold the current value
  std::atomic<uint64_t> looked_{0};               // the period in which a replica last looked
  std::atomic<uint64_t> read_{0};                 // the period in which read() last looked
};

// Throws: failed_precondition for a tensor that lies on another mesh than the replica.
void require_own_mesh(const MeshTensorImpl& tensor, const ThreadView& view);

}  // namespace tutti
