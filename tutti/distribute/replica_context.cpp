#include "tutti/distribute/replica_context.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/reduce.h"
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

int64_t ReplicaContext::num_replicas_in_sync() const { return strategy_->num_replicas_in_sync(); }

void ReplicaContext::meet(const char* name, void* payload, Rendezvous::Action action) const {
  const auto once = [&](std::span<void* const> payloads) {
    const ThreadViewGuard global_view({});
    const DistributionContextGuard cross_replica({.strategy = strategy_});
    action(payloads);
  };
  auto* rendezvous = t_context.rendezvous;
  if (!rendezvous) return once(std::span<void* const>(&payload, 1));
  auto* turn = t_context.turn;
  if (turn) turn->unlock();  // others compute while this one waits
  struct TakeTurn {
    std::mutex* turn;
    ~TakeTurn() {
      if (turn) turn->lock();
    }
  } take_turn{turn};
  rendezvous->arrive(replica_, {.name = name, .location = location_, .payload = payload}, once);
}

namespace {

struct AllReducePayload {
  Tensor in, out;
};

Tensor all_reduce_values(const ReplicaContext& context, ReduceOp op, const Tensor& x) {
  AllReducePayload payload{x.detach(), {}};
  context.meet("all_reduce", &payload, [&](std::span<void* const> payloads) {
    std::vector<Tensor> values;
    for (void* other : payloads) values.push_back(static_cast<AllReducePayload*>(other)->in);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto sums = all_reduce_tensors(op, values);
    for (size_t r = 0; r < payloads.size(); ++r) static_cast<AllReducePayload*>(payloads[r])->out = sums[r];
  });
  return payload.out;
}

struct AllReduceFunction : torch::autograd::Function<AllReduceFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, int64_t op) {
    context->saved_data["op"] = op;
    return all_reduce_values(get_replica_context(), static_cast<ReduceOp>(op), x);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto op = static_cast<ReduceOp>(context->saved_data["op"].toInt());
    if (t_context.replica < 0 && t_context.strategy)
      throw Error(ErrorCode::failed_precondition,
                  "all_reduce: its gradient is a collective of the replicas; call backward() inside run");
    return {all_reduce_values(get_replica_context(), op, gradients[0]), Tensor()};
  }
};

}  // namespace

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& x) const {
  if (at::GradMode::is_enabled() && x.requires_grad()) return AllReduceFunction::apply(x, static_cast<int64_t>(op));
  return all_reduce_values(*this, op, x);
}

}  // namespace tutti
