#include "tutti/tensor/mesh_gradient.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradMeta;

// Runs the hooks of a variable on the gradient of one of its leaves.
class VariableHooks final : public torch::autograd::FunctionPreHook {
 public:
  explicit VariableHooks(std::shared_ptr<torch::autograd::hooks_list> hooks) : hooks_(std::move(hooks)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    torch::autograd::variable_list results(gradients);
    for (const auto& hook : *hooks_) {
      if (!hook) continue;  // removed
      const at::TensorBase result = hook(results[0]);
      if (result.defined()) results[0] = Tensor(result);
    }
    return results;
  }

 private:
  std::shared_ptr<torch::autograd::hooks_list> hooks_;
};

// Watches over a gradient that replicas share: one that is computed anew is the replica's own again.
class SharedGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  SharedGradient(const Tensor& gradient, std::shared_ptr<std::atomic<bool>> shared)
      : gradient_(gradient.getIntrusivePtr()), shared_(std::move(shared)) {}

  void operator()(const Tensor& leaf) override {
    if (!shared_->load(std::memory_order_relaxed)) return;
    if (gradient_._unsafe_get_target() == leaf.grad().unsafeGetTensorImpl())
      throw Error(ErrorCode::failed_precondition,
                  "backward: between sum_gradients() and step() it would add a replica's gradient to the sum; call "
                  "step() or zero_grad() first");
    shared_->store(false, std::memory_order_relaxed);
  }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl> gradient_;
  std::shared_ptr<std::atomic<bool>> shared_;
};

// Takes what the replicas left for one variable, in replica order; a missing gradient counts as zero.
BufferSum take_gradients(c10::ArrayRef<Tensor> leaves, ReduceOp op) {
  BufferSum sum{.values = {}, .divisor = op == ReduceOp::mean ? static_cast<double>(leaves.size()) : 1};
  for (const Tensor& leaf : leaves) {
    Tensor gradient = std::move(leaf.mutable_grad());
    leaf.mutable_grad().reset();
    if (!gradient.defined()) continue;
    if (gradient.requires_grad())
      throw Error(
          ErrorCode::unimplemented,
          "a replica's gradient has a graph of its own (create_graph): second derivatives across replicas are not "
          "supported; take them inside run");
    sum.values.push_back(std::move(gradient));
  }
  return sum;
}

}  // namespace

GradientGroup::GradientGroup(ReduceOp op, Reduction reduction)
    : op_(op),
      reduction_(std::move(reduction)),
      counter_(communication_counter({.op = "all_reduce", .mesh_dimension = "replica", .cause = "gradients"})) {}

void GradientGroup::reduce() {
  const std::lock_guard lock(mutex_);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto pending = std::exchange(pending_, {});  // taken, for a reduction inside of this one has its own
  auto sums = std::exchange(sums_, {});
  for (MeshMeta* member : members_) {
    if (!member->pending()) continue;
    pending.push_back(member);
    sums.push_back(member->take_replicas());
  }
  reduction_(sums);
  int64_t bytes = 0;
  for (size_t i = 0; i < pending.size(); ++i) {
    bytes += static_cast<int64_t>(sums[i].result.nbytes());
    pending[i]->accumulate(std::move(sums[i].result));
  }
  if (pending[0]->self_->replica_values()->leaves().size() > 1) counter_.record(bytes);
  pending.clear();
  sums.clear();
  pending_ = std::move(pending);
  sums_ = std::move(sums);
}

MeshMeta::MeshMeta(MeshTensorImpl* self, bool requires_grad, std::shared_ptr<GradientGroup> group)
    : AutogradMeta(self, requires_grad), self_(self), group_(std::move(group)) {
  const std::lock_guard lock(group_->mutex_);
  group_->members_.push_back(this);
}

MeshMeta::~MeshMeta() {
  const std::lock_guard lock(group_->mutex_);
  const auto found = std::find(group_->members_.begin(), group_->members_.end(), this);
  *found = group_->members_.back();
  group_->members_.pop_back();
}

bool MeshMeta::pending() const {
  const auto* values = self_->replica_values();
  if (!values) return false;
  const auto leaves = values->leaves();
  return std::any_of(leaves.begin(), leaves.end(), [](const Tensor& leaf) { return leaf.grad().defined(); });
}

BufferSum MeshMeta::take_replicas() {
  const auto leaves = self_->replica_values()->leaves();
  if (!shared_ || !shared_->exchange(false)) return take_gradients(leaves, group_->op());
  BufferSum first{.values = {std::move(leaves[0].mutable_grad())}};  // all hold the same
  for (const Tensor& leaf : leaves) leaf.mutable_grad().reset();
  return first;
}

void MeshMeta::share() {
  if (!mutable_grad().defined()) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto leaves = self_->replica_values()->leaves();
  const Tensor gradient = is_mesh_tensor(grad_) ? mesh_impl(grad_).read()[0] : grad_;
  if (!shared_) shared_ = std::make_shared<std::atomic<bool>>();
  for (const Tensor& leaf : leaves) {
    // A copy: LibTorch's count of copy-on-write shares may free it twice when replicas drop theirs at once.
    const Tensor own = gradient.to(leaf.device(), leaf.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    leaf.mutable_grad() = own;
    torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<SharedGradient>(own, shared_));
  }
  grad_.reset();
  global_.store(false, std::memory_order_release);
  shared_->store(true);
}

void MeshMeta::accumulate(Tensor reduced) {
  if (!self_->spec()->replicated())
    throw Error(ErrorCode::unimplemented, str("a variable of layout ", self_->spec()->layout().to_string(),
                                              " got gradients in replica view; only replicated variables can"));
  Tensor total = make_mesh_tensor(self_->mesh_shape(), std::move(reduced));
  grad_ = grad_.defined() ? grad_.add(total) : std::move(total);
  global_.store(true, std::memory_order_release);
}

Tensor& MeshMeta::mutable_grad() {
  const ThreadView& view = ThreadView::current();
  if (view.replica >= 0) return self_->require_replica_values().acquire(*self_, view).mutable_grad();
  if (pending()) group_->reduce();
  global_.store(true, std::memory_order_release);  // the caller may set it
  return grad_;
}

const Tensor& MeshMeta::grad() const {
  const ThreadView& view = ThreadView::current();
  if (view.replica >= 0) return self_->require_replica_values().acquire(*self_, view).grad();
  if (pending()) group_->reduce();
  return grad_;
}

void MeshMeta::hand_over() {
  if (!global_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(group_->mutex_);
  if (!global_.load(std::memory_order_relaxed)) return;
  if (grad_.defined()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto leaves = self_->replica_values()->leaves();
    Tensor gradient = (is_mesh_tensor(grad_) ? mesh_impl(grad_).read()[0] : grad_).to(leaves[0].device());
    if (group_->op() == ReduceOp::mean && leaves.size() > 1)
      gradient = gradient.mul(static_cast<double>(leaves.size()));  // the reduction will divide it again
    leaves[0].mutable_grad() = std::move(gradient);
    grad_.reset();
  }
  global_.store(false, std::memory_order_release);
}

void adopt_variable(MeshTensorImpl& tensor, const std::shared_ptr<GradientGroup>& group) {
  auto* meta = static_cast<AutogradMeta*>(tensor.autograd_meta());
  if (dynamic_cast<MeshMeta*>(meta)) return;
  if (meta && meta->grad_fn_) return;
  auto adopted = std::make_unique<MeshMeta>(&tensor, meta && meta->requires_grad_, group);
  if (meta) {
    adopted->grad_ = std::move(meta->grad_);
    adopted->hooks_ = std::move(meta->hooks_);
    adopted->cpp_hooks_list_ = std::move(meta->cpp_hooks_list_);
    adopted->name_ = std::move(meta->name_);
  }
  const bool read_copies = adopted->requires_grad_ && tensor.mesh_shape()->mesh.options().home;
  tensor.set_autograd_meta(std::move(adopted));
  ReplicaValues& values = tensor.require_replica_values();
  if (read_copies) values.make_read_only();
}

void share_gradient(const Tensor& variable) {
  if (!is_mesh_tensor(variable)) return;
  if (auto* meta = dynamic_cast<MeshMeta*>(mesh_impl(variable).autograd_meta())) meta->share();
}

void refuse_lost_gradient(const MeshTensorImpl& tensor) {
  const auto* meta = static_cast<const AutogradMeta*>(tensor.autograd_meta());
  if (meta && meta->grad_fn_ && at::GradMode::is_enabled())
    throw Error(ErrorCode::failed_precondition,
                "a replica uses a tensor that global view computed and that needs a gradient, which cannot reach it; "
                "compute it inside run, or detach() it");
}

void follow_variable(const MeshTensorImpl& variable, const Tensor& leaf) {
  auto* meta = static_cast<AutogradMeta*>(variable.autograd_meta());
  if (!meta) return;
  if (meta->grad_fn_) return refuse_lost_gradient(variable);
  if (leaf.requires_grad() != meta->requires_grad_) leaf.set_requires_grad(meta->requires_grad_);
  if (auto* mesh_meta = dynamic_cast<MeshMeta*>(meta)) mesh_meta->hand_over();
  if (!meta->cpp_hooks_list_) return;
  auto* leaf_meta = torch::autograd::impl::materialize_autograd_meta(leaf);
  if (leaf_meta->cpp_hooks_list_ == meta->cpp_hooks_list_) return;
  leaf_meta->cpp_hooks_list_ = meta->cpp_hooks_list_;
  torch::autograd::impl::clear_hooks(leaf);
  torch::autograd::impl::add_hook(leaf, std::make_unique<VariableHooks>(meta->cpp_hooks_list_));
}

}  // namespace tutti
