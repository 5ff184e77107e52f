#include "tutti/tensor/mesh_gradient.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tutti/collectives/communications.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/gradient_reads.h"
#include "tutti/tensor/leaf_hooks.h"
#include "tutti/tensor/sparse_tensor.h"
#include "tutti/tensor/sum_of.h"
#include "tutti/tensor/updates/buffer_updates.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

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
    // LibTorch's gradient of sgn is a zero without memory.
    sum.values.push_back(gradient._is_zerotensor() ? at::zeros(gradient.sizes(), gradient.options())
                                                   : std::move(gradient));
  }
  return sum;
}

// What processes tell each other of a variable's gradients. The sum over the processes says how many have one, in how
// many it is sparse, and the sum of the dimensions that their indices have.
class GradientKinds {
 public:
  static int64_t of(c10::ArrayRef<Tensor> leaves) {
    int64_t sparse_dim = 0;
    for (const Tensor& leaf : leaves) {
      const Tensor& gradient = leaf.mutable_grad();
      if (!gradient.defined()) continue;
      if (!gradient.is_sparse()) return 1;
      sparse_dim = gradient.sparse_dim();
    }
    return sparse_dim == 0 ? 0 : 1 | int64_t{1} << kBits | sparse_dim << 2 * kBits;
  }

  explicit GradientKinds(int64_t sum) : sum_(sum) {}
  bool any() const { return sum_ != 0; }

  // This process's part in the form that all processes have: sparse where all that have a gradient have a sparse one.
  void conform(BufferSum& sum, bool is_here) const {
    if (sum.is_whole) return;
    const int64_t num = sum_ & kMask, num_sparse = sum_ >> kBits & kMask;
    if (num_sparse < num) {
      for (Tensor& value : sum.values)
        if (value.is_sparse()) value = value.to_dense();
    } else if (!is_here) {
      sum.values = {sparse_without_rows(sum.values[0], (sum_ >> 2 * kBits) / num_sparse)};
    }
  }

 private:
  static constexpr int kBits = 20;
  static constexpr int64_t kMask = (int64_t{1} << kBits) - 1;

  static Tensor sparse_without_rows(const Tensor& zeros, int64_t sparse_dim) {
    std::vector<int64_t> sizes = zeros.sizes().slice(static_cast<size_t>(sparse_dim)).vec();
    sizes.insert(sizes.begin(), 0);
    return sparse_tensor(at::empty({sparse_dim, 0}, zeros.options().dtype(at::kLong)),
                         at::empty(sizes, zeros.options()), zeros.sizes(), /*is_coalesced=*/false);
  }

  int64_t sum_;
};

// The buffer of a gradient that global view has, on the replica's device if there is one.
const Tensor& plain(const Tensor& gradient, size_t replica) {
  if (!is_mesh_tensor(gradient)) return gradient;
  const Components& buffers = mesh_impl(gradient).read();
  return buffers[std::min(replica, buffers.size() - 1)];
}

}  // namespace

GradientGroup::GradientGroup(ReduceOp op, Reduction reduction, std::shared_ptr<Processes> processes)
    : op_(op),
      reduction_(std::move(reduction)),
      processes_(std::move(processes)),
      counter_(communication_counter({.op = "all_reduce", .mesh_dimension = "replica", .cause = "gradients"})) {}

bool GradientGroup::is_first_process() const { return !processes_ || processes_->is_chief(); }

void GradientGroup::add(MeshMeta* member) {
  const auto later = [](const MeshMeta* a, const MeshMeta* b) { return a->number_ < b->number_; };
  members_.insert(std::upper_bound(members_.begin(), members_.end(), member, later), member);
}

// Of each member, the GradientKinds of all processes.
std::vector<int64_t> GradientGroup::count_pending() const {
  std::vector<int64_t> counts;
  for (const MeshMeta* member : members_) counts.push_back(member->pending() ? GradientKinds::of(member->leaves_) : 0);
  sum_numbers(processes_, counts, "which gradients there are", SameSums::zeros);
  return counts;
}

void GradientGroup::reduce() {
  const std::lock_guard lock(mutex_);
  if (processes_ && reducing_.load()) return;  // inside of this one, which all processes are in
  ran_.store(false, std::memory_order_relaxed);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  // Until then other threads see what replicas left, from now on that they must wait.
  struct Reducing {
    explicit Reducing(std::atomic<bool>& flag) : flag(flag) { flag.store(true); }
    ~Reducing() { flag.store(false); }
    std::atomic<bool>& flag;
  } reducing(reducing_);
  const std::vector<int64_t> counts = processes_ ? count_pending() : std::vector<int64_t>();
  auto pending = std::exchange(pending_, {});  // taken, for a reduction inside of this one has its own
  auto sums = std::exchange(sums_, {});
  for (size_t i = 0; i < members_.size(); ++i) {
    MeshMeta* member = members_[i];
    const bool is_here = member->pending();
    const std::optional<GradientKinds> kinds = processes_ ? std::optional(GradientKinds(counts[i])) : std::nullopt;
    if (!(kinds ? kinds->any() : is_here)) {
      member->settle();
      continue;
    }
    pending.push_back(member);
    sums.push_back(member->take_replicas());
    if (kinds) kinds->conform(sums.back(), is_here);
  }
  int64_t bytes = 0;
  if (!sums.empty()) reduction_(sums);
  for (size_t i = 0; i < pending.size(); ++i) {
    if (processes_ || pending[i]->leaves_.size() > 1) bytes += bytes_in(sums[i].result);
    pending[i]->accumulate(on_mesh(pending[i]->self_->mesh_shape(), sums[i]));
  }
  if (bytes > 0) communicated(counter_, bytes);
  pending.clear();
  sums.clear();
  pending_ = std::move(pending);
  sums_ = std::move(sums);
}

void GradientGroup::give_only_replica() {
  if (is_of_processes()) return;
  const std::lock_guard lock(mutex_);
  for (MeshMeta* member : members_) member->give_only_replica();
}

void GradientGroup::drop() {
  const std::lock_guard lock(mutex_);
  ran_.store(false, std::memory_order_relaxed);
  for (MeshMeta* member : members_) member->drop();
}

MeshMeta::MeshMeta(MeshTensorImpl* self, std::shared_ptr<GradientGroup> group)
    : self_(self), group_(std::move(group)), number_(group_->num_made_.fetch_add(1)) {}

MeshMeta::~MeshMeta() {
  if (self_) self_->set_mesh_meta(nullptr);
  if (!states_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(group_->mutex_);
  std::erase(group_->members_, this);
  values_->remove_leaves(leaves_);
}

// What LibTorch knows of the tensor. Other threads may read `state` while it is taken over, so that of it stays what
// they read.
void MeshMeta::take_over(AutogradMeta& state) {
  requires_grad_ = state.requires_grad_;
  name_ = state.name_;
  grad_accumulator_ = state.grad_accumulator_;
  cpp_hooks_list_ = state.cpp_hooks_list_;
  hooks_ = std::move(state.hooks_);
  post_acc_grad_hooks_ = std::move(state.post_acc_grad_hooks_);
  if (state.grad_.defined()) set_global_gradient(state.grad_);
}

void MeshMeta::make_leaves() {
  const std::lock_guard lock(group_->mutex_);
  if (states_.load(std::memory_order_relaxed)) return;
  auto& values = self_->require_replica_values();
  leaves_ = values.make_leaves(*self_);
  values.add_leaves(leaves_, self_->version_counter());
  values_ = c10::intrusive_ptr<ReplicaValues>::reclaim_copy(&values);
  owned_states_ = std::make_unique<LeafState[]>(leaves_.size());
  group_->add(this);
  states_.store(owned_states_.get(), std::memory_order_release);
}

// Not one with a graph of its own, to which LibTorch, too, adds no gradient in place. It moves, which is no part of a
// recording.
void MeshMeta::give_only_replica() {
  if (!has_only_replica() || !global_.load(std::memory_order_acquire) || leaves_[0].mutable_grad().defined() ||
      (grad_.defined() && grad_.requires_grad()))
    return;
  const UnrecordedGuard unrecorded;
  take_global_gradient(0);
}

const Tensor& MeshMeta::unreduced_gradient() const {
  return grad_.defined() || !has_only_replica() ? grad_ : leaves_[0].grad();
}

const Tensor& MeshMeta::leaf(const ThreadView& view) {
  const auto replica = static_cast<size_t>(view.replica);
  const LeafState* states = states_.load(std::memory_order_acquire);
  if (!states || states[replica].period != view.mesh->clock.period() || !values_->is_current()) {
    const Tensor& own = first_look(replica);
    if (!states) give_only_replica();
    return own;
  }
  if (requires_grad_ != known_flag_.load(std::memory_order_relaxed)) check_flag();
  return leaves_[replica];
}

void MeshMeta::check_flag() {
  const std::lock_guard lock(group_->mutex_);
  if (requires_grad_ == known_flag_.load(std::memory_order_relaxed)) return;  // the first replica has just set it
  refuse_switch();
}

void MeshMeta::refuse_switch() const {
  throw Error(ErrorCode::failed_precondition,
              str("set_requires_grad of ", values_->describe(),
                  " was called while replicas run: it is one switch for all of them. Call requires_grad_(), which in a "
                  "replica is its own, or call it outside of run"));
}

void MeshMeta::follow_flag(size_t replica) {
  const std::lock_guard lock(group_->mutex_);  // recursive: the first replica brings the others up to date
  if (known_flag_.load() != requires_grad_) {
    if (ThreadView::current().replica >= 0 && flag_period_.load() == self_->mesh_shape()->clock.period())
      refuse_switch();
    known_flag_.store(requires_grad_);
    ++flag_generation_;
  }
  auto& flag = owned_states_[replica].flag;
  if (flag.load() == flag_generation_.load()) return;
  leaves_[replica].set_requires_grad(requires_grad_);
  flag.store(flag_generation_.load());
}

// The first that a replica sees of the variable in a period: what changed in global view. It touches its own leaf
// alone.
const Tensor& MeshMeta::first_look(size_t replica) {
  if (!states_.load(std::memory_order_acquire)) make_leaves();
  values_->look();
  LeafState& state = owned_states_[replica];
  const Tensor& leaf = leaves_[replica];
  if (state.flag.load() != flag_generation_.load(std::memory_order_relaxed) ||
      requires_grad_ != known_flag_.load(std::memory_order_relaxed))
    follow_flag(replica);
  flag_period_.store(self_->mesh_shape()->clock.period(), std::memory_order_relaxed);
  if (requires_grad_ && self_->mesh_shape()->mesh.options().home) values_->make_read_only();
  if (cpp_hooks_list_ && state.hooks != cpp_hooks_list_.get()) {
    state.hooks = cpp_hooks_list_.get();
    follow_hooks(leaf, cpp_hooks_list_);
  }
  state.period = self_->mesh_shape()->clock.period();
  return leaf;
}

c10::ArrayRef<Tensor> MeshMeta::leaves() {
  for (size_t replica = 0; replica < static_cast<size_t>(self_->mesh_shape()->mesh.num_devices()); ++replica)
    first_look(replica);
  return leaves_;
}

void MeshMeta::set_requires_grad_in(const ThreadView& view, bool requires_grad) {
  leaf(view).set_requires_grad(requires_grad);
  if (view.replica > 0) return;
  const std::lock_guard lock(group_->mutex_);
  for (size_t replica = 0; replica < leaves_.size(); ++replica) follow_flag(replica);  // who looks later sees no switch
  requires_grad_ = requires_grad;
  known_flag_.store(requires_grad, std::memory_order_relaxed);
}

// The replicas follow when they next look, also one that has set its own.
void MeshMeta::set_requires_grad_of_all() {
  const std::lock_guard lock(group_->mutex_);
  known_flag_.store(requires_grad_);
  ++flag_generation_;
}

bool MeshMeta::requires_grad() const {
  const ThreadView& view = ThreadView::current();
  const LeafState* states = states_.load(std::memory_order_acquire);
  if (const auto replica = static_cast<size_t>(view.replica); view.replica >= 0 && states && replica < leaves_.size())
    if (states[replica].flag.load() == flag_generation_.load(std::memory_order_relaxed) &&
        requires_grad_ == known_flag_.load(std::memory_order_relaxed))
      return leaves_[replica].requires_grad();
  return AutogradMeta::requires_grad();
}

bool MeshMeta::pending() const {
  return states_.load(std::memory_order_acquire) &&
         std::ranges::any_of(leaves_, [](const Tensor& leaf) { return leaf.grad().defined(); });
}

BufferSum MeshMeta::take_replicas() {
  if (!shared_ || !shared_->exchange(false)) {
    BufferSum sum = take_gradients(leaves_, group_->op());
    if (group_->processes_ && group_->op() == ReduceOp::mean) sum.divisor *= group_->processes_->size();
    if (sum.values.empty()) sum.values.push_back(at::zeros(leaves_[0].sizes(), leaves_[0].options()));
    return sum;
  }
  BufferSum first{.values = {std::move(leaves_[0].mutable_grad())}, .is_whole = true};  // all hold the same
  for (const Tensor& leaf : leaves_) leaf.mutable_grad().reset();
  return first;
}

void MeshMeta::set_global_gradient(Tensor gradient) {
  grad_ = std::move(gradient);
  ++generation_;
  taken_.store(false, std::memory_order_relaxed);
  global_.store(true, std::memory_order_release);
}

// What of the global gradient no replica took over.
Tensor MeshMeta::rest_of_global_gradient() const {
  if (!taken_.load(std::memory_order_relaxed) || !grad_.defined()) return grad_;
  const auto left = std::count_if(owned_states_.get(), owned_states_.get() + leaves_.size(),
                                  [&](const LeafState& state) { return state.gradient != generation_; });
  if (left == 0) return {};
  return grad_.mul(static_cast<double>(left) / static_cast<double>(leaves_.size()));
}

void MeshMeta::settle() {
  if (taken_.load(std::memory_order_relaxed)) set_global_gradient(rest_of_global_gradient());
}

void MeshMeta::drop() {
  for (const Tensor& leaf : leaves_) leaf.mutable_grad().reset();
  if (shared_) shared_->store(false);
  set_global_gradient({});
  global_.store(false, std::memory_order_release);
}

void MeshMeta::accumulate(Tensor reduced) {
  if (!self_->spec()->replicated())
    throw Error(ErrorCode::unimplemented, str("a variable of layout ", self_->spec()->layout().to_string(),
                                              " got gradients in replica view; only replicated variables can"));
  if (const Tensor rest = rest_of_global_gradient(); rest.defined()) reduced = sum_of(rest, reduced);
  set_global_gradient(std::move(reduced));
}

void MeshMeta::share() {
  if (!mutable_grad().defined()) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  make_leaves();
  if (!shared_) shared_ = std::make_shared<std::atomic<bool>>();
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Tensor &leaf = leaves_[i], &gradient = plain(grad_, i);
    // A copy: replicas may drop theirs at once, and global view keeps none (copy_on_write.h).
    const Tensor own = gradient.to(leaf.device(), leaf.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    leaf.mutable_grad() = own;
    watch_shared_gradient(leaf, own, shared_);
  }
  set_global_gradient({});
  global_.store(false, std::memory_order_release);
  shared_->store(true);
}

// A sum's goes to the first replica as it is. Of a mean everyone gets it, copy-on-write: global view keeps a share
// until no replica runs.
void MeshMeta::take_global_gradient(size_t replica) {
  const std::lock_guard lock(group_->mutex_);
  LeafState& state = owned_states_[replica];
  if (!grad_.defined()) global_.store(false, std::memory_order_relaxed);
  if (!grad_.defined() || state.gradient == generation_ || (moves_to_first() && replica > 0)) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor& own = leaves_[replica].mutable_grad();
  const Tensor gradient = plain(grad_, replica).to(leaves_[replica].device());
  const bool is_for_other_process = group_->op() == ReduceOp::sum && !group_->is_first_process();
  if (own.defined() && !is_for_other_process)
    own = sum_of(gradient, own);
  else if (moves_to_first() && !is_for_other_process)
    own = gradient;
  else if (!moves_to_first())
    own = share_whole_or_copy(gradient);  // of what lies in a pack with others, a copy
  if (moves_to_first()) {
    set_global_gradient({});
    global_.store(false, std::memory_order_release);
  } else {
    state.gradient = generation_;
    taken_.store(true, std::memory_order_relaxed);
  }
}

Tensor& MeshMeta::grad_in(const ThreadView& view) {
  if (grad_fn_) return grad_;
  require_own_mesh(*self_, view);
  const Tensor& own = leaf(view);
  if (global_.load(std::memory_order_acquire)) take_global_gradient(static_cast<size_t>(view.replica));
  return own.mutable_grad();
}

// Other threads may be about to do so.
void MeshMeta::reduce_pending() {
  const std::lock_guard lock(group_->mutex_);
  const bool reduces = pending() || taken_.load() || group_->must_reduce();
  if (group_->is_of_processes()) GradientReads::note(group_, reduces);
  if (reduces) group_->reduce();
}

Tensor& MeshMeta::mutable_grad() {
  if (const ThreadView& view = ThreadView::current(); view.replica >= 0) return grad_in(view);
  reduce_pending();
  global_.store(true, std::memory_order_release);  // the caller may set it
  return grad_;
}

const Tensor& MeshMeta::grad() const {
  auto& self = const_cast<MeshMeta&>(*this);
  if (const ThreadView& view = ThreadView::current(); view.replica >= 0) return self.grad_in(view);
  self.reduce_pending();
  return grad_;
}

void MeshMeta::follow_memory() {
  auto& values = self_->require_replica_values();
  if (!states_.load(std::memory_order_acquire)) return;
  const Components now = values.make_leaves(*self_);
  values_->remove_leaves(leaves_);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i].set_data(now[i]);
    leaves_[i].unsafeGetTensorImpl()->set_version_counter(now[i].unsafeGetTensorImpl()->version_counter());
  }
  values.add_leaves(leaves_, self_->version_counter());
  values_ = c10::intrusive_ptr<ReplicaValues>::reclaim_copy(&values);
}

namespace {

// LibTorch's slot for the state of a tensor, which it keeps to itself: set_autograd_meta() would free the state that is
// there, which other replicas may be reading.
std::unique_ptr<c10::AutogradMetaInterface>& autograd_meta_slot(c10::TensorImpl& tensor);
template <auto slot>
struct AutogradMetaSlot {
  friend std::unique_ptr<c10::AutogradMetaInterface>& autograd_meta_slot(c10::TensorImpl& tensor) {
    return tensor.*slot;
  }
};
template struct AutogradMetaSlot<&c10::TensorImpl::autograd_meta_>;

bool can_be_variable(const torch::autograd::AutogradMeta* meta) {
  return !meta || (!meta->grad_fn_ && (!meta->is_view_ || meta->requires_grad_));
}

}  // namespace

void adopt_variable(MeshTensorImpl& tensor, const std::shared_ptr<GradientGroup>& group) {
  if (tensor.mesh_meta()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto* meta = static_cast<torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (tensor.mesh_meta() || !can_be_variable(meta)) return;
  auto adopted = std::make_unique<MeshMeta>(&tensor, group);
  if (meta) adopted->take_over(*meta);
  MeshMeta* now = adopted.get();
  std::unique_ptr<c10::AutogradMetaInterface> state = std::move(adopted);
  autograd_meta_slot(tensor).swap(state);
  now->previous = std::move(state);
  tensor.set_mesh_meta(now);
}

MeshMeta* variable_of(MeshTensorImpl& tensor, const ThreadView& view) {
  if (MeshMeta* meta = tensor.mesh_meta()) return meta->is_variable() ? meta : nullptr;
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (!meta || meta->grad_fn_ || !meta->requires_grad_) return nullptr;
  if (const MeshMeta* base = tensor.mesh_meta_of_base())
    adopt_variable(tensor, base->group());
  else
    adopt_variable(tensor, view.gradients ? *view.gradients : std::make_shared<GradientGroup>(ReduceOp::sum));
  return tensor.mesh_meta();
}

void share_gradient(const Tensor& variable) {
  if (!is_mesh_tensor(variable)) return;
  if (auto* meta = mesh_impl(variable).mesh_meta()) meta->share();
}

void refuse_lost_gradient(const MeshTensorImpl& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta && meta->grad_fn_ && at::GradMode::is_enabled())
    throw Error(ErrorCode::failed_precondition,
                "a replica uses a tensor that global view computed and that needs a gradient, which cannot reach it; "
                "compute it inside run, or detach() it");
}

bool has_read_copies(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return false;
  const auto& impl = mesh_impl(tensor);
  if (const auto* values = impl.replica_values(); values && values->read_only()) return true;
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
  return meta && meta->requires_grad_ && impl.mesh_shape()->mesh.options().home;
}

}  // namespace tutti
