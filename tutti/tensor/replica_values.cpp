#include "tutti/tensor/replica_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/on_device.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

// Of no elements each has memory of its own, which may grow: LibTorch makes no copy-on-write of nothing.
c10::Storage required_share(const Tensor& piece) {
  if (piece.storage().nbytes() == 0) {
    const OnDevice there(piece.device());
    return c10::Storage(c10::Storage::use_byte_size_t(), 0, piece.storage().allocator(), /*resizable=*/true);
  }
  c10::Storage shared = share_storage(piece);
  if (!shared) throw Error(ErrorCode::internal, "a mesh tensor's buffer cannot be shared copy-on-write");
  return shared;
}

// Leaves one of `terms` shares of the value; of integers the first has what division leaves over.
void take_term(const Tensor& share, int64_t terms, bool first) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!at::isIntegralType(share.scalar_type(), /*includeBool=*/false)) return static_cast<void>(share.div_(terms));
  const Tensor term = share.div(terms, "trunc");
  share.copy_(first ? share.sub(term.mul(terms - 1)) : term);
}

// "w", "w/replica_1", … as TensorFlow names them.
std::string component_name(const std::string& variable, size_t replica) {
  return variable.empty() || replica == 0 ? variable : str(variable, "/replica_", replica);
}

}  // namespace

void require_own_mesh(const MeshTensorImpl& tensor, const ThreadView& view) {
  if (tensor.mesh_shape() == view.mesh) return;
  const auto place = [](const Mesh& mesh) { return str(mesh.to_string(), " on ", str_list(mesh.devices())); };
  throw Error(ErrorCode::failed_precondition,
              str("replica ", view.replica, " of a strategy with the mesh ",
                  view.mesh ? place(view.mesh->mesh) : "none", " touches ", tensor.require_replica_values().describe(),
                  ", which lies on the mesh ", place(tensor.mesh_shape()->mesh),
                  ": it belongs to another strategy; make it in the scope of this one, or pass its value, gather(x)"));
}

ReplicaValues::ReplicaValues(const MeshShape* shape, Components pieces, bool replicated, c10::VariableVersion version)
    : shape_(shape), pieces_(std::move(pieces)), replicated_(replicated), version_(std::move(version)) {}

void ReplicaValues::declare(const VariablePolicy& policy, std::string name) {
  const std::lock_guard lock(mutex_);
  policy_ = policy;
  name_ = std::move(name);
  if (!on_read()) return;
  share_all(1);
  live_.store(true, std::memory_order_release);
}

void ReplicaValues::take_policy_of(const ReplicaValues& other) {
  const std::lock_guard lock(mutex_);
  if (other.read_only()) make_read_only();
  if (policy_ || !other.policy_) return;
  policy_ = other.policy_;
  name_ = other.name_;
  if (on_read()) drop_all();
}

std::string ReplicaValues::describe() const {
  return str("the variable ", name_.empty() ? "" : "'" + name_ + "' ", "of shape ", str_list(pieces_[0].sizes()));
}

bool ReplicaValues::is_current() const { return looked_.load(std::memory_order_acquire) == shape_->clock.period(); }

const Tensor& ReplicaValues::share(const ThreadView& view) {
  if (!is_current()) look();
  return shares_[static_cast<size_t>(view.replica)];
}

// The buffer of `tensor` whose elements a replica sees.
const Tensor& ReplicaValues::piece_of(const MeshTensorImpl& tensor, size_t replica) const {
  const int device = static_cast<int>(replica);
  const Tensor& piece =
      tensor.components()[static_cast<size_t>(shape_->project(device, shape_->all, tensor.spec()->stored))];
  if (tensor.copied_view || tensor.dtype() != pieces_[replica].dtype() || !are_aliases(piece, pieces_[replica]))
    throw Error(ErrorCode::unimplemented, str("replica ", replica, " uses a view that global view made of ", describe(),
                                              ", which is sharded or of another dtype; make the view in run"));
  return piece;
}

Tensor ReplicaValues::share_of(const MeshTensorImpl& part, const ThreadView& view) {
  const auto replica = static_cast<size_t>(view.replica);
  const Tensor& piece = piece_of(part, replica);
  return share(view).as_strided(piece.sizes(), piece.strides(), piece.storage_offset());
}

// The first look in a period waits for a thread that still reads what the period before left.
void ReplicaValues::look() {
  const std::lock_guard lock(mutex_);
  if (!live_.load(std::memory_order_relaxed)) {
    const UnrecordedGuard looks;
    share_all(is_sum() ? num_terms() : 1);
    live_.store(true, std::memory_order_release);
  }
  if (!in_replica_view()) return;
  const uint64_t now = shape_->clock.period();
  if (looked_.load(std::memory_order_relaxed) == now) return;
  writes_ = count_writes();
  shape_->clock.tell_at_stop(c10::intrusive_ptr<Watcher>::reclaim_copy(this));
  looked_.store(now, std::memory_order_release);
}

// How often all shares were written, whether by their variable's name, through a view or as components.
uint64_t ReplicaValues::count_writes() const {
  uint64_t writes = 0;
  for (const Tensor& share : shares_) writes += share.unsafeGetTensorImpl()->version_counter().current_version();
  return writes;
}

void ReplicaValues::replicas_stopped() noexcept {
  const std::lock_guard lock(mutex_);
  const uint64_t writes = count_writes();
  if (writes == std::exchange(writes_, writes)) return;
  const auto bump = [](c10::VariableVersion& version) {
    if (version.enabled()) version.bump();  // else of an inference tensor
  };
  bump(version_);
  for (VariableLeaves& each : leaves_) bump(each.version);
}

// Puts a buffer under the share of a replica and under all leaves that lie in it.
void ReplicaValues::give(size_t replica, const c10::Storage& storage) {
  shares_[replica].unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
  for (const auto& [leaves, version] : leaves_)
    (*leaves)[replica].unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
}

// Gives each replica the value of its piece; on_read a buffer of its own, with one of `terms` parts of the value.
void ReplicaValues::share_all(int64_t terms) {
  const c10::InferenceMode normal_tensors(false);  // what is made here lives on when the caller trains
  const bool made = !shares_.empty();
  sources_.resize(pieces_.size());
  shares_.resize(pieces_.size());
  shared_data_.resize(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const c10::Device own = shape_->devices[i];
    sources_[i] = pieces_[i].device() == own ? pieces_[i] : pieces_[i].to(own);
    if (!made) {
      shares_[i] = make_over(required_share(sources_[i]), sources_[i]);
      if (!name_.empty()) torch::autograd::impl::set_name(shares_[i], component_name(name_, i));
    } else {
      give(i, required_share(sources_[i]));
    }
    shared_data_[i] = shares_[i].storage().data();
    if (!on_read()) continue;
    leave_share(shares_[i]);
    shared_data_[i] = nullptr;
    const auto processes = terms > 1 ? processes_of(*shape_) : nullptr;
    if (terms > 1) take_term(shares_[i], terms, i == 0 && (!processes || processes->is_chief()));
  }
}

// How many replicas have a part of a sum.
int64_t ReplicaValues::num_terms() const {
  const auto processes = processes_of(*shape_);
  return static_cast<int64_t>(pieces_.size()) * (processes ? processes->size() : 1);
}

Components ReplicaValues::make_leaves(const MeshTensorImpl& variable) {
  const std::lock_guard lock(mutex_);
  look();
  const c10::InferenceMode normal_tensors(false);
  Components leaves;
  for (size_t i = 0; i < shares_.size(); ++i) {
    const Tensor& share = shares_[i];
    leaves.push_back(make_over(share.storage(), variable.is_partial_view() ? piece_of(variable, i) : share));
    leaves[i].unsafeGetTensorImpl()->set_version_counter(share.unsafeGetTensorImpl()->version_counter());
    if (!name_.empty()) torch::autograd::impl::set_name(leaves[i], component_name(name_, i));
  }
  return leaves;
}

void ReplicaValues::add_leaves(const Components& leaves, c10::VariableVersion version) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < leaves.size(); ++i)
    leaves[i].unsafeGetTensorImpl()->set_storage_keep_dtype(shares_[i].storage());  // they may have got others since
  leaves_.push_back({&leaves, std::move(version)});
}

void ReplicaValues::remove_leaves(const Components& leaves) {
  const std::lock_guard lock(mutex_);
  std::erase_if(leaves_, [&](const VariableLeaves& each) { return each.leaves == &leaves; });
}

void ReplicaValues::replace(const Tensor& data, const ThreadView& view) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto replica = static_cast<size_t>(view.replica);
  const Tensor& own = share(view);
  if (data.sizes() != own.sizes() || data.dtype() != own.dtype())
    throw Error(ErrorCode::failed_precondition,
                str("set_data: called by replica ", view.replica, " with ", data.toString(), " ",
                    str_list(data.sizes()), " for ", describe(), " of ", own.toString(),
                    "; a replica may change the value alone. Call it outside of run"));
  Tensor buffer = at::empty_strided(own.sizes(), own.strides(), own.options());
  buffer.copy_(data);
  const std::lock_guard lock(mutex_);
  give(replica, buffer.storage());
}

c10::ArrayRef<Tensor> ReplicaValues::components() {
  look();
  read_.store(0, std::memory_order_relaxed);
  return shares_;
}

bool ReplicaValues::diverged() const {
  if (!live_.load(std::memory_order_acquire)) return false;
  for (size_t i = 0; i < shares_.size(); ++i)
    if (written(i)) return true;
  return false;
}

// Whether replicas may be computing with the shares.
bool ReplicaValues::in_use() const { return shape_->clock.running() && is_current(); }

void ReplicaValues::refuse_while_in_use() const {
  if (in_use())
    throw Error(ErrorCode::failed_precondition,
                str(describe(),
                    " is written by a thread in global view while replicas compute with it; write it where they meet "
                    "(merge_call, an optimizer's step), before or after run. A thread that a replica starts is in "
                    "global view"));
}

void ReplicaValues::read() {
  if (!live_.load(std::memory_order_acquire)) return;
  const uint64_t now = shape_->clock.period();
  if (read_.load(std::memory_order_acquire) == now) return;
  if (on_read() && policy_->aggregation == VariableAggregation::none)
    throw Error(ErrorCode::invalid_argument,
                str(describe(),
                    " is on_read without an aggregation: outside of replicas, where it is read, it has no "
                    "value; read it in run, or make it with an aggregation"));
  const std::lock_guard lock(mutex_);
  if (in_use() || read_.load(std::memory_order_relaxed) == now) return;
  if (diverged()) {
    // What replicas wrote before a recording began is no part of it.
    std::optional<UnrecordedGuard> before_the_recording;
    if (const auto* recorder = CallRecorder::current();
        recorder && std::ranges::none_of(shares_, [&](const Tensor& own) { return recorder->has_written(own); }))
      before_the_recording.emplace();
    if (read_only()) {
      drop_all();
      throw Error(
          ErrorCode::failed_precondition,
          "a replica wrote in place to its read copy of a parameter, which lies on another device; the write is "
          "dropped. Change it with assign(), or where the replicas meet: merge_call, an optimizer's step");
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::NoGradGuard no_grad;
    if (replicated_)
      take_aggregate();
    else
      for (size_t i = 0; i < shares_.size(); ++i)
        if (written(i)) pieces_[i].copy_(shares_[i]);
  }
  read_.store(now, std::memory_order_release);
}

VariableAggregation ReplicaValues::aggregation() const {
  if (policy_) return on_read() ? policy_->aggregation : VariableAggregation::only_first_replica;
  const Tensor& first = shares_[0];
  return first.is_floating_point() || first.is_complex() ? VariableAggregation::mean
                                                         : VariableAggregation::only_first_replica;
}

// In the order of the replicas. What a mirrored variable has become is the same in all processes; check_in_sync tells.
Components ReplicaValues::shares_of_all_processes() const {
  const auto processes = policy_ && !on_read() ? nullptr : processes_of(*shape_);
  if (!processes) return shares_;
  const std::vector<Tensor> own(shares_.begin(), shares_.end());
  Components all;
  for (const auto& shares : gather_tensors(*processes, own, "read of a variable"))
    for (const Tensor& share : shares) all.push_back(share.to(shares_[0].device()));
  return all;
}

void ReplicaValues::take_aggregate() {
  const Tensor value = aggregate(aggregation(), shares_of_all_processes());
  if (!value.is_same(shares_[0])) {
    static CommunicationCounter& counter = communication_counter(
        {.op = "all_reduce", .mesh_dimension = "replica", .cause = "read of a variable", .implied = true});
    communicated(counter, static_cast<int64_t>(value.nbytes()));
  } else if (!written(0)) {
    return;  // it is the global value already
  }
  // Who shares a buffer shares it with the global value, which keeps its share (copy_on_write.h).
  for (size_t i = 0; i < shares_.size(); ++i)
    if (!written(i)) leave_share(shares_[i]);
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (i == 0 || !are_aliases(pieces_[i], pieces_[0])) pieces_[i].copy_(value);
}

void ReplicaValues::write() {
  if (!live_.load(std::memory_order_acquire)) return;
  refuse_while_in_use();
  read();
  drop_all();
}

void ReplicaValues::overwrite() {
  if (!live_.load(std::memory_order_acquire)) return;
  refuse_while_in_use();
  drop_all();
}

// Whether a program holds a share or a leaf.
bool ReplicaValues::held() const {
  const auto in_other_hands = [](const Tensor& tensor) { return tensor.use_count() > 1; };
  return std::ranges::any_of(shares_, in_other_hands) || std::ranges::any_of(leaves_, [&](const VariableLeaves& each) {
           return std::ranges::any_of(*each.leaves, in_other_hands);
         });
}

void ReplicaValues::refresh_held() {
  if (!live_.load(std::memory_order_acquire) && held()) look();
}

void ReplicaValues::drop_all() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < shares_.size(); ++i) {
    give(i, sources_[i].storage());
    shares_[i].unsafeGetTensorImpl()->bump_version();  // a graph that saved the old value must not use the new one
  }
  live_.store(false, std::memory_order_release);
  looked_.store(0, std::memory_order_release);
}

}  // namespace tutti
