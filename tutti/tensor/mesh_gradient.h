#pragma once

#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tutti/collectives/reduce_op.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {

class CommunicationCounter;
class MeshMeta;
class Processes;
struct ThreadView;

// Variables whose gradients are reduced together: the first that is read in global view brings all of them, in one
// packed reduction. op() says whether a variable's gradient is the sum or the mean of what its replicas left. Threads:
// any; under its lock runs no user code but that of `reduction`.
class GradientGroup {
 public:
  // Sets the result of each item, as sum_buffers does.
  using Reduction = std::function<void(std::span<BufferSum>)>;

  // With `processes` the reduction is over the replicas of all processes, which make their variables in one order. Each
  // process then reduces when it first reads a gradient after a run, even if no gradient is pending in it.
  explicit GradientGroup(
      ReduceOp op, Reduction reduction = [](std::span<BufferSum> items) { sum_buffers(items); },
      std::shared_ptr<Processes> processes = {});
  ReduceOp op() const { return op_; }
  // To be called before replicas run.
  void note_run() { ran_.store(processes_ != nullptr, std::memory_order_relaxed); }
  // Whether they did since the last reduction, in which all processes take part.
  bool has_run() const { return ran_.load(std::memory_order_relaxed); }
  bool is_of_processes() const { return processes_ != nullptr; }

  // No gradient is left, neither the replicas' nor the global ones, as after zero_grad(); nothing is communicated.
  void drop();
  // To be called before replicas run, and before they go on where they met. An only one takes the gradients that global
  // view has, so that what its backward passes add is added to these one after the other, as on one device.
  void give_only_replica();
  // Moves what the replicas left into the global gradients of all members.
  void reduce();

 private:
  friend class MeshMeta;
  void add(MeshMeta* member);
  std::vector<int64_t> count_pending() const;
  bool must_reduce() const { return reducing_.load() || ran_.load(std::memory_order_relaxed); }
  bool is_first_process() const;

  ReduceOp op_;
  Reduction reduction_;
  std::shared_ptr<Processes> processes_;
  std::atomic<bool> ran_{false};  // replicas of all processes did since the last reduction
  std::atomic<uint64_t> num_made_{0};
  CommunicationCounter& counter_;
  std::atomic<bool> reducing_{false};
  std::recursive_mutex mutex_;      // making a mesh tensor of a sum may read a gradient
  std::vector<MeshMeta*> members_;  // those that replicas looked at, as they were made; guarded by mutex_, as the next
  std::vector<MeshMeta*> pending_;  // reduce()'s lists, kept for their memory
  std::vector<BufferSum> sums_;
};

// The autograd state of a mesh variable: a tensor that requires a gradient and that no graph computed, wherever it was
// made. Each replica has a leaf of its own for it, over the memory that ReplicaValues gives it.
//
// grad() is the replica's own gradient in replica view. In global view it is the reduction over the replicas, which is
// made when grad() is first called. A gradient that global view has when replicas run again is kept, and counts once:
// of a sum it becomes a part of the first replica's gradient, of a mean a part of every replica's. So zero_grad() in
// the replicas clears it too. An only replica has it from the beginning.
//
// requires_grad_() and register_hook(), called in a replica, are for that replica alone. Back in global view the tensor
// requires a gradient if the first replica's leaf does. What global view sets holds for all replicas.
class MeshMeta final : public torch::autograd::AutogradMeta {
 public:
  MeshMeta(MeshTensorImpl* self, std::shared_ptr<GradientGroup> group);
  ~MeshMeta() override;

  Tensor& mutable_grad() override;
  const Tensor& grad() const override;
  bool requires_grad() const override;

  // Whether replicas see leaves: it requires a gradient, or did.
  bool is_variable() const { return !grad_fn_ && (requires_grad_ || states_.load(std::memory_order_acquire)); }
  // A replica's leaf. Throws: failed_precondition where set_requires_grad was called in a replica.
  const Tensor& leaf(const ThreadView& view);
  // In global view: the leaves of all replicas.
  c10::ArrayRef<Tensor> leaves();
  const std::shared_ptr<GradientGroup>& group() const { return group_; }
  // Whether it has one replica, in this process alone.
  bool has_only_replica() const { return leaves_.size() == 1 && !group_->is_of_processes(); }
  // In any view: what global view has, or the only replica has taken of it. Reduces nothing.
  const Tensor& unreduced_gradient() const;

  // What Tensor::requires_grad_() does: in a replica, and after it was called in global view.
  void set_requires_grad_in(const ThreadView& view, bool requires_grad);
  void set_requires_grad_of_all();
  // Gives every replica the reduced gradient as its own; the next reduction takes the first replica's.
  void share();
  // The tensor shares other memory than before, or shows it otherwise: so do its leaves, which keep their gradients.
  void follow_memory();
  void take_over(AutogradMeta& state);
  void forget_tensor() { self_ = nullptr; }

  // LibTorch's state of the tensor from before it was a variable: another replica may still be reading it.
  std::unique_ptr<c10::AutogradMetaInterface> previous;

 private:
  friend class GradientGroup;
  // What a replica last took over from the variable.
  struct LeafState {
    uint64_t period = 0;             // in which it last looked
    std::atomic<uint64_t> flag = 0;  // the generation of requires_grad; the first replica may set that of others
    torch::autograd::hooks_list* hooks = nullptr;
    uint64_t gradient = 0;  // the generation of the global gradient that it took
  };

  void make_leaves();
  const Tensor& first_look(size_t replica);
  void follow_flag(size_t replica);
  void check_flag();
  [[noreturn]] void refuse_switch() const;
  Tensor& grad_in(const ThreadView& view);
  void take_global_gradient(size_t replica);
  void give_only_replica();
  bool moves_to_first() const { return group_->op() == ReduceOp::sum || leaves_.size() == 1; }
  Tensor rest_of_global_gradient() const;
  void set_global_gradient(Tensor gradient);
  bool pending() const;  // requires the group's mutex, as settle() and take_replicas()
  void reduce_pending();
  void settle();
  void drop();
  BufferSum take_replicas();
  void accumulate(Tensor reduced);

  MeshTensorImpl* self_;
  std::shared_ptr<GradientGroup> group_;
  uint64_t number_;                           // in the order in which the group's variables were made
  c10::intrusive_ptr<ReplicaValues> values_;  // of the leaves
  Components leaves_;
  std::unique_ptr<LeafState[]> owned_states_;
  std::atomic<LeafState*> states_{nullptr};   // of the leaves; null: no replica looked yet
  std::atomic<bool> known_flag_{false};       // requires_grad_ as a replica, or the last look at it, found it
  std::atomic<uint64_t> flag_generation_{1};  // grows when global view has set another
  std::atomic<uint64_t> flag_period_{0};      // in which a replica last found known_flag_
  mutable std::atomic<bool> global_{false};   // grad_ may be defined
  std::atomic<bool> taken_{false};            // a replica took grad_ over, of which others have a part too
  uint64_t generation_ = 1;                   // of grad_
  // Whether the replicas hold equal, reduced gradients; null: they never did. A backward() after that ends it.
  std::shared_ptr<std::atomic<bool>> shared_;
};

// Makes `tensor` a variable of the group. Does nothing for a variable, for a tensor that a graph computed, and for a
// view that requires no gradient. A view that requires one is no view for autograd from then on. Threads: any.
void adopt_variable(MeshTensorImpl& tensor, const std::shared_ptr<GradientGroup>& group);

// In a replica: the state of a variable, of which the replica sees a leaf. A tensor that requires a gradient and is no
// variable yet is made one. Null for a tensor of which the replica sees a constant.
MeshMeta* variable_of(MeshTensorImpl& tensor, const ThreadView& view);

// In global view: reduces the gradient of a variable and gives every replica the result as its own.
void share_gradient(const Tensor& variable);

// Throws: failed_precondition in a replica's view for a tensor that global view computed and that would need a
// gradient.
void refuse_lost_gradient(const MeshTensorImpl& tensor);

// Whether replicas have copies of this tensor that they may only read.
bool has_read_copies(const Tensor& tensor);

}  // namespace tutti
