#include "tutti/distribute/replica_context.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/reduce.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

thread_local DistributionContext t_context;

}  // namespace

const DistributionContext& DistributionContext::current() { return t_context; }

DistributionContextGuard::DistributionContextGuard(DistributionContext context)
    : previous_(std::exchange(t_context, context)) {}
DistributionContextGuard::~DistributionContextGuard() { t_context = previous_; }

Strategy& get_strategy() { return t_context.strategy ? *t_context.strategy : default_strategy(); }
bool has_strategy() { return t_context.strategy != nullptr; }
bool in_cross_replica_context() { return t_context.strategy && t_context.replica < 0; }

ReplicaContext get_replica_context(std::source_location location) {
  if (in_cross_replica_context())
    throw Error(ErrorCode::failed_precondition,
                str("get_replica_context: called at ", to_string(location),
                    " in cross-replica context; call it in a function that strategy.run calls"),
                location);
  return ReplicaContext(get_strategy(), std::max(t_context.replica, 0), location);
}

uint64_t next_type_key() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

int64_t ReplicaContext::num_replicas_in_sync() const { return strategy_->num_replicas_in_sync(); }

void ReplicaContext::meet(const char* name, void* payload, Rendezvous::Action action, uint64_t key) const {
  auto* rendezvous = t_context.rendezvous;
  const auto once = [&](std::span<void* const> payloads) {
    const ThreadViewGuard global_view({});
    const DistributionContextGuard cross_replica({.strategy = strategy_, .rendezvous = rendezvous});
    struct GoOn {
      ~GoOn() { ReplicaValues::replicas_start(); }
    } go_on;
    action(payloads);
  };
  if (!rendezvous) return once(std::span<void* const>(&payload, 1));
  auto* turn = t_context.turn;
  if (turn) turn->unlock();  // others compute while this one waits
  struct TakeTurn {
    std::mutex* turn;
    ~TakeTurn() {
      if (turn) turn->lock();
    }
  } take_turn{turn};
  rendezvous->arrive(replica_, {.name = name, .location = location_, .key = key, .payload = payload}, once);
}

namespace {

struct AllReducePayload {
  Tensor in, out;
};

Tensor all_reduce_values(const ReplicaContext& context, const char* name, ReduceOp op, const Tensor& x) {
  AllReducePayload payload{x.detach(), {}};
  const auto action = [&](std::span<void* const> payloads) {
    std::vector<Tensor> values;
    for (void* other : payloads) values.push_back(static_cast<AllReducePayload*>(other)->in);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto sums = all_reduce_tensors(op, values);
    for (size_t r = 0; r < payloads.size(); ++r) static_cast<AllReducePayload*>(payloads[r])->out = sums[r];
  };
  context.meet(name, &payload, action, static_cast<uint64_t>(op));
  return payload.out;
}

// Who called all_reduce: the same replica must call backward().
struct Caller final : torch::CustomClassHolder {
  Caller(const ReplicaContext& context, ReduceOp op) : context(context), op(op), place(t_context) {}

  ReplicaContext context;
  ReduceOp op;
  DistributionContext place;
};

struct AllReduceFunction : torch::autograd::Function<AllReduceFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const c10::intrusive_ptr<Caller>& caller) {
    context->saved_data["caller"] = at::IValue::make_capsule(caller);
    return all_reduce_values(caller->context, "all_reduce", caller->op, x);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto capsule = context->saved_data["caller"].toCapsule();
    const auto& caller = static_cast<const Caller&>(*capsule);
    if (caller.place.rendezvous != t_context.rendezvous || caller.place.replica != t_context.replica)
      throw Error(
          ErrorCode::failed_precondition,
          "all_reduce: its gradient is a collective of the replicas; call backward() inside run, in the replica "
          "that computed the loss");
    return {all_reduce_values(caller.context, "gradient of all_reduce", caller.op, gradients[0]), Tensor()};
  }
};

}  // namespace

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& x) const {
  const Tensor own = local(x);
  if (at::GradMode::is_enabled() && own.requires_grad())
    return AllReduceFunction::apply(own, c10::make_intrusive<Caller>(*this, op));
  return all_reduce_values(*this, "all_reduce", op, own);
}

}  // namespace tutti
