// ReplicaContext's collectives of the leaves of a structure, with their gradients.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/count_communication.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/leaf_columns.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/strategy.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using Leaves = structure::Flat<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a replica brings to a collective and takes from it, leaf by leaf.
struct Payload {
  Leaves in;
  std::vector<Tensor> out = {};
  std::vector<int64_t> begins = {};  // of a gather: where this replica's part of the result begins
};

using Replicas = Brought<Payload>;
using Collective = FunctionRef<void(std::vector<PerReplica<Tensor>> columns, const Replicas& replicas)>;

// The replicas meet, and one of them calls `collective`, which sets what each takes.
void meet(const ReplicaContext& context, const char* name, uint64_t key, Payload& payload, Collective collective) {
  for (Tensor& leaf : payload.in.leaves) leaf = leaf.detach();
  const auto action = [&](Replicas replicas) {
    std::vector<Leaves> leaves;
    for (size_t r = 0; r < replicas.size(); ++r) leaves.push_back(replicas[r].in);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    collective(leaf_columns(name, leaves), replicas);
  };
  context.meet(name, payload, action, key);
}

// Gives each replica its own of a result for all of them. With one replica the result may be its value: it is copied.
void deal_out(const std::vector<Tensor>& result, const Replicas& replicas) {
  for (size_t r = 0; r < replicas.size(); ++r)
    replicas[r].out.push_back(replicas.size() == 1 ? result[r].clone() : result[r]);
}

// Where the replicas take the result. The default strategy has no place for values.
Destinations places_of(const ReplicaContext& context, const PerReplica<Tensor>& values) {
  if (&context.strategy() == &default_strategy()) return Destinations(values[0]);
  return context.strategy().devices();
}

std::vector<Tensor> reduce_values(const ReplicaContext& context, const char* name, ReduceOp op, Leaves leaves) {
  Payload payload{std::move(leaves)};
  const auto reduce = [&](std::vector<PerReplica<Tensor>> columns, const Replicas& replicas) {
    std::vector<ReduceRequest> requests;
    for (auto& column : columns) {
      const Destinations places = places_of(context, column);
      requests.push_back({std::move(column), places});
    }
    require_one_kind(name, requests);
    static CommunicationCounter& counter =
        communication_counter({.op = "all_reduce", .mesh_dimension = "replica", .cause = "ReplicaContext::all_reduce"});
    count_reduction(counter, requests);
    for (const auto& result : context.strategy().cross_device_ops().batch_reduce(op, std::move(requests)))
      deal_out(result, replicas);
  };
  meet(context, name, static_cast<uint64_t>(op), payload, reduce);
  return std::move(payload.out);
}

// Where the values of this process begin in what is gathered from all.
int64_t begin_of_process(const Strategy& strategy, const PerReplica<Tensor>& own, int64_t axis) {
  if (!strategy.processes()) return 0;
  std::vector<int64_t> lengths(static_cast<size_t>(strategy.processes()->size()));
  const auto rank = static_cast<size_t>(strategy.processes()->rank());
  for (const Tensor& value : own) lengths[rank] += value.size(axis);
  strategy.sum_over_processes(lengths, "lengths of what is gathered");
  return std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(rank), int64_t{0});
}

Payload gather_values(const ReplicaContext& context, int64_t axis, Leaves leaves) {
  Payload payload{std::move(leaves)};
  const auto gather = [&](const std::vector<PerReplica<Tensor>>& columns, const Replicas& replicas) {
    static CommunicationCounter& counter =
        communication_counter({.op = "all_gather", .mesh_dimension = "replica", .cause = "ReplicaContext::all_gather"});
    for (const auto& column : columns) {
      count_gather(counter, column);
      deal_out(context.strategy().cross_device_ops().gather(column, places_of(context, column), axis), replicas);
      int64_t begin = begin_of_process(context.strategy(), column, axis);
      for (size_t r = 0; r < replicas.size(); begin += column[r++].size(axis)) replicas[r].begins.push_back(begin);
    }
  };
  meet(context, "all_gather", static_cast<uint64_t>(axis), payload, gather);
  return payload;
}

// One call of a collective, kept for its gradient, which the same replica must compute.
struct CollectiveCall final : torch::CustomClassHolder {
  CollectiveCall(const ReplicaContext& context, const char* name, std::string form)
      : context(context), rendezvous(current_rendezvous()), name(name), form(std::move(form)) {}

  ReplicaContext context;
  Rendezvous* rendezvous;  // of the run
  int replica = ThreadView::current().function_of();
  const char* name;
  std::string form;
  std::vector<c10::Device> devices = {};  // on which the leaves lie, and so their gradients
  ReduceOp op = ReduceOp::sum;
  int64_t axis = 0;                    // of a gather
  std::vector<int64_t> begins, sizes;  // of a gather: this replica's part of each leaf
};
using CollectiveCallPtr = c10::intrusive_ptr<CollectiveCall>;

void save(AutogradContext* graph, const CollectiveCallPtr& call, at::TensorList leaves, const variable_list& results) {
  for (const Tensor& leaf : leaves) call->devices.push_back(leaf.device());
  graph->saved_data["call"] = at::IValue::make_capsule(call);
  variable_list integers;
  for (const Tensor& result : results)
    if (!torch::autograd::isDifferentiableType(result.scalar_type())) integers.push_back(result);
  graph->mark_non_differentiable(integers);
}

const CollectiveCall& saved_call(AutogradContext* graph, at::IValue& capsule) {
  capsule = graph->saved_data["call"];
  const auto holder = capsule.toCapsule();
  const auto& call = static_cast<const CollectiveCall&>(*holder);
  if (call.rendezvous != current_rendezvous() || call.replica != ThreadView::current().function_of())
    throw Error(ErrorCode::failed_precondition,
                str(call.name,
                    ": its gradient is a collective of the replicas; call backward() inside run, in the "
                    "replica that computed the loss"));
  return call;
}

std::vector<Tensor> differentiable_all_reduce(CollectiveCallPtr call, const Leaves& leaves);

// The gradients of a call's leaves, reduced; undefined for those without one.
variable_list reduce_incoming(const CollectiveCall& call, const char* name, const variable_list& incoming) {
  Leaves floats{.form = call.form};
  for (const Tensor& gradient : incoming)
    if (gradient.defined() && torch::autograd::isDifferentiableType(gradient.scalar_type()))
      floats.leaves.push_back(gradient);
  const auto reduction = c10::make_intrusive<CollectiveCall>(call.context, name, call.form);
  reduction->op = call.op;
  const auto reduced = differentiable_all_reduce(reduction, floats);
  variable_list gradients;
  size_t next = 0;
  for (size_t i = 0; i < incoming.size(); ++i) {
    const Tensor& gradient = incoming[i];
    const bool is_reduced = gradient.defined() && torch::autograd::isDifferentiableType(gradient.scalar_type());
    gradients.push_back(is_reduced ? reduced[next++].to(call.devices[i]) : Tensor());
  }
  return gradients;
}

struct AllReduce : torch::autograd::Function<AllReduce> {
  static variable_list forward(AutogradContext* graph, at::TensorList leaves, const CollectiveCallPtr& call) {
    auto results = reduce_values(call->context, call->name, call->op, {leaves.vec(), call->form});
    save(graph, call, leaves, results);
    return results;
  }
  static variable_list backward(AutogradContext* graph, const variable_list& incoming) {
    at::IValue capsule;
    const CollectiveCall& call = saved_call(graph, capsule);
    auto gradients = reduce_incoming(call, "gradient of all_reduce", incoming);
    gradients.emplace_back();  // of the call
    return gradients;
  }
};

struct AllGather : torch::autograd::Function<AllGather> {
  static variable_list forward(AutogradContext* graph, at::TensorList leaves, const CollectiveCallPtr& call) {
    Payload payload = gather_values(call->context, call->axis, {leaves.vec(), call->form});
    for (const Tensor& leaf : leaves) call->sizes.push_back(leaf.size(call->axis));
    call->begins = std::move(payload.begins);
    save(graph, call, leaves, payload.out);
    return std::move(payload.out);
  }
  static variable_list backward(AutogradContext* graph, const variable_list& incoming) {
    at::IValue capsule;
    const CollectiveCall& call = saved_call(graph, capsule);
    auto gradients = reduce_incoming(call, "gradient of all_gather", incoming);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) gradients[i] = gradients[i].narrow(call.axis, call.begins[i], call.sizes[i]);
    gradients.emplace_back();  // of the call
    return gradients;
  }
};

bool needs_graph(const char* name, const Leaves& leaves) {
  if (!at::GradMode::is_enabled()) return false;
  bool any = false;
  for (const Tensor& leaf : leaves.leaves) {
    any |= leaf.requires_grad();
    if (leaf.requires_grad() && leaf.is_sparse())
      throw Error(ErrorCode::unimplemented,
                  str(name, ": gradients do not go through sparse tensors; detach() it, or pass to_dense()"));
  }
  return any;
}

std::vector<Tensor> differentiable_all_reduce(CollectiveCallPtr call, const Leaves& leaves) {
  if (needs_graph(call->name, leaves)) return AllReduce::apply(at::TensorList(leaves.leaves), call);
  return reduce_values(call->context, call->name, call->op, leaves);
}

// In replica view variables are the replica's own components.
Leaves own(Leaves leaves) {
  for (Tensor& leaf : leaves.leaves) leaf = local(leaf);
  return leaves;
}

}  // namespace

std::vector<Tensor> all_reduce_leaves(const ReplicaContext& context, ReduceOp op, Leaves leaves) {
  leaves = own(std::move(leaves));
  const auto call = c10::make_intrusive<CollectiveCall>(context, "all_reduce", leaves.form);
  call->op = op;
  return differentiable_all_reduce(call, leaves);
}

std::vector<Tensor> all_gather_leaves(const ReplicaContext& context, Leaves leaves, int64_t axis) {
  leaves = own(std::move(leaves));
  if (!needs_graph("all_gather", leaves)) return gather_values(context, axis, std::move(leaves)).out;
  const auto call = c10::make_intrusive<CollectiveCall>(context, "all_gather", leaves.form);
  call->axis = axis;
  return AllGather::apply(at::TensorList(leaves.leaves), call);
}

}  // namespace tutti
