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

// Variables whose gradients are reduced together: the first that is read in global view brings all of them, in one
// packed reduction. op() says whether a variable's gradient is the sum or the mean of what its replicas left. Threads:
// any; under its lock runs no user code but that of `reduction`.
class GradientGroup {
 public:
  // Sets the result of each item, as sum_buffers does.
  using Reduction = std::function<void(std::span<BufferSum>)>;

  explicit GradientGroup(
      ReduceOp op, Reduction reduction = [](std::span<BufferSum> items) { sum_buffers(items); });
  ReduceOp op() const { return op_; }

  // Moves what the replicas left into the global gradients of all members.
  void reduce();

 private:
  friend class MeshMeta;
  ReduceOp op_;
  Reduction reduction_;
  CommunicationCounter& counter_;
  std::recursive_mutex mutex_;      // making a mesh tensor of a sum may read a gradient
  std::vector<MeshMeta*> members_;  // guarded by mutex_, as the next two
  std::vector<MeshMeta*> pending_;  // reduce()'s lists, kept for their memory
  std::vector<BufferSum> sums_;
};

// The autograd state of a mesh variable: grad() is the replica's own gradient in replica view; in global view it is the
// reduction over the replicas, taken when it is first read.
class MeshMeta final : public torch::autograd::AutogradMeta {
 public:
  MeshMeta(MeshTensorImpl* self, bool requires_grad, std::shared_ptr<GradientGroup> group);
  ~MeshMeta() override;

  Tensor& mutable_grad() override;
  const Tensor& grad() const override;

  // Gives every replica the reduced gradient as its own; the next reduction takes the first replica's.
  void share();

  // Before replicas look at their gradients: the global one, if any, becomes the first replica's, so that accumulating
  // goes on where it stood and zero_grad() in the replicas clears it.
  void hand_over();

 private:
  friend class GradientGroup;
  bool pending() const;
  BufferSum take_replicas();
  void accumulate(Tensor reduced);

  MeshTensorImpl* self_;
  std::shared_ptr<GradientGroup> group_;
  mutable std::atomic<bool> global_{false};  // grad_ may be defined
  // Whether the replicas hold equal, reduced gradients; null: they never did. A backward() after that ends it.
  std::shared_ptr<std::atomic<bool>> shared_;
};

// Makes `tensor`, a leaf, a variable of the group; requires_grad stays. Does nothing for a tensor with a history.
void adopt_variable(MeshTensorImpl& tensor, const std::shared_ptr<GradientGroup>& group);

// In global view: reduces the gradient of a variable and gives every replica the result as its own.
void share_gradient(const Tensor& variable);

// Throws: failed_precondition in a replica's view for a tensor that global view computed and that would need a
// gradient.
void refuse_lost_gradient(const MeshTensorImpl& tensor);

// Gives the leaf of a replica the requires_grad and the hooks of its variable. Throws: as refuse_lost_gradient.
void follow_variable(const MeshTensorImpl& variable, const Tensor& leaf);

}  // namespace tutti
