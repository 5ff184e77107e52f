#include "tutti/distribute/strategy.h"

#include "tutti/collectives/processes.h"
#include "tutti/distribute/count_communication.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

// One for each replica of this process.
void check_size(const char* call, const PerReplica<Tensor>& values, int64_t num_replicas) {
  if (static_cast<int64_t>(values.size()) != num_replicas)
    throw Error(ErrorCode::invalid_argument, str(call, ": ", values.size(), " values; the strategy has ", num_replicas,
                                                 " replicas, and there must be one for each"));
}

// Each replica's own value, where a variable stands for it.
PerReplica<Tensor> own_values(const char* call, const PerReplica<Tensor>& values, int64_t num_replicas) {
  check_size(call, values, num_replicas);
  std::vector<Tensor> own;
  for (const Tensor& value : values) {
    if (!is_mesh_tensor(value)) {
      own.push_back(value);
      continue;
    }
    const auto components = replica_components(value);
    if (components.size() != values.size())
      throw Error(ErrorCode::invalid_argument,
                  str(call, ": a variable of ", components.size(), " replicas, where the strategy has ", num_replicas));
    own.push_back(components[own.size()].detach());
  }
  return PerReplica(std::move(own));
}

}  // namespace

const CrossDeviceOps& Strategy::cross_device_ops() const {
  static const InProcessAllReduce in_process;
  return in_process;
}

std::vector<Tensor> Strategy::reduce_leaves(ReduceOp op, std::vector<PerReplica<Tensor>> leaves,
                                            const Axes& axes) const {
  std::vector<ReduceRequest> requests;
  std::vector<int64_t> counts;  // of elements, where a mean goes over axes
  for (auto& leaf : leaves) {
    leaf = own_values("reduce", leaf, num_local_replicas());
    const Destinations device(leaf[0]);
    if (axes.empty()) {
      requests.push_back({std::move(leaf), device});
    } else {
      AxisSums over_axes = sum_over_axes(op, leaf.values(), axes);
      requests.push_back({PerReplica(std::move(over_axes.sums)), device});
      counts.push_back(over_axes.count);
    }
  }
  static CommunicationCounter& counter =
      communication_counter({.op = "reduce", .mesh_dimension = "replica", .cause = "Strategy::reduce"});
  count_reduction(counter, requests);
  sum_over_processes(counts, "elements of a mean");
  const auto reduced = cross_device_ops().batch_reduce(axes.empty() ? op : ReduceOp::sum, std::move(requests));
  std::vector<Tensor> results;
  for (size_t i = 0; i < reduced.size(); ++i) {
    const bool divide = op == ReduceOp::mean && !axes.empty();
    results.push_back(divide ? reduced[i][0].div(static_cast<double>(counts[i])) : reduced[i][0]);
  }
  return results;
}

std::vector<Tensor> Strategy::gather_leaves(const std::vector<PerReplica<Tensor>>& leaves, int64_t axis) const {
  static CommunicationCounter& counter =
      communication_counter({.op = "gather", .mesh_dimension = "replica", .cause = "Strategy::gather"});
  std::vector<Tensor> results;
  for (const auto& leaf : leaves) {
    const auto own = own_values("gather", leaf, num_local_replicas());
    count_gather(counter, own);
    results.push_back(cross_device_ops().gather(own, Destinations(own[0]), axis)[0]);
  }
  return results;
}

namespace {

void require_mean(ReduceOp op, const Tensor& value, int64_t num_replicas) {
  if (op == ReduceOp::sum && is_mesh_tensor(value))
    throw Error(
        ErrorCode::invalid_argument,
        "reduce: a variable has one value for all replicas, which has no sum over them; take the mean, which is "
        "that value, or sum what run returned");
  if (op == ReduceOp::sum && num_replicas > 1)
    throw Error(ErrorCode::invalid_argument, str("reduce: a value that is not per replica cannot be summed over ",
                                                 num_replicas, " replicas; pass what run returned, or take the mean"));
}

}  // namespace

void Strategy::sum_over_processes(std::span<int64_t> numbers, const char* name) const {
  if (processes() && !numbers.empty()) sum_numbers(processes(), numbers, name);
}

std::vector<std::vector<uint8_t>> Strategy::gather_bytes(std::span<const uint8_t> own) const {
  return processes()->gather(own, "reduce of numbers");
}

// Of a value that each process has one of.
Tensor Strategy::reduce_of_processes(ReduceOp op, const Tensor& value, const Axes& axes) const {
  const auto over_processes = [&](ReduceOp how, const Tensor& own) {
    return cross_device_ops().batch_reduce(how, {{PerReplica<Tensor>({own}), Destinations(own)}})[0][0];
  };
  if (axes.empty()) return over_processes(op, value);
  AxisSums over_axes = sum_over_axes(op, {&value, 1}, axes);
  sum_over_processes({&over_axes.count, 1}, "elements of a mean");
  const Tensor sum = over_processes(ReduceOp::sum, over_axes.sums[0]);
  return op == ReduceOp::mean ? sum.div(static_cast<double>(over_axes.count)) : sum;
}

Tensor Strategy::reduce(ReduceOp op, const Tensor& value, const Axes& axes) const {
  require_cross_replica("reduce");
  if (processes() && !is_mesh_tensor(value)) return reduce_of_processes(op, value, axes);
  require_mean(op, value, num_replicas_in_sync());
  if (axes.empty()) return value;
  const AxisSums over_axes = sum_over_axes(op, {&value, 1}, axes);
  return op == ReduceOp::mean ? over_axes.sums[0].div(static_cast<double>(over_axes.count)) : over_axes.sums[0];
}

PerReplica<Tensor> Strategy::reduce_to(ReduceOp op, const PerReplica<Tensor>& values,
                                       const Destinations& destinations) const {
  return batch_reduce_to(op, {{values, destinations}})[0];
}

PerReplica<Tensor> Strategy::reduce_to(ReduceOp op, const Tensor& value, const Destinations& destinations) const {
  require_cross_replica("reduce_to");
  if (processes() && !is_mesh_tensor(value))
    return PerReplica(cross_device_ops().batch_reduce(op, {{PerReplica<Tensor>({value}), destinations}})[0]);
  require_mean(op, value, num_replicas_in_sync());
  return PerReplica(cross_device_ops().broadcast(is_mesh_tensor(value) ? tutti::gather(value) : value, destinations));
}

std::vector<PerReplica<Tensor>> Strategy::batch_reduce_to(
    ReduceOp op, const std::vector<std::pair<PerReplica<Tensor>, Destinations>>& values_and_destinations) const {
  require_cross_replica("reduce_to");
  std::vector<ReduceRequest> requests;
  for (const auto& [values, destinations] : values_and_destinations)
    requests.push_back({own_values("reduce_to", values, num_local_replicas()), destinations});
  require_one_kind("batch_reduce_to", requests);
  static CommunicationCounter& counter =
      communication_counter({.op = "reduce", .mesh_dimension = "replica", .cause = "Strategy::reduce_to"});
  count_reduction(counter, requests);
  std::vector<PerReplica<Tensor>> results;
  for (auto& reduced : cross_device_ops().batch_reduce(op, std::move(requests)))
    results.emplace_back(std::move(reduced));
  return results;
}

void Strategy::refuse_other_strategy(const char* call, std::source_location location) const {
  const auto* place = StrategyPlace::current();
  if (!place || place->strategy == this) return;
  const int replica = ThreadView::current().function_of();
  const auto at = [](std::source_location where) { return where.line() ? " at " + to_string(where) : ""; };
  throw Error(ErrorCode::failed_precondition,
              str(call, " of a ", name(), at(location), ": this thread is in the ",
                  replica < 0 ? "scope" : str("run (replica ", replica, ")"), " of another strategy, a ",
                  place->strategy->name(), at(place->entered_at), "; leave it first"),
              location);
}

void Strategy::require_cross_replica(const char* call) const {
  refuse_other_strategy(call);
  if (const int replica = ThreadView::current().function_of(); replica >= 0)
    throw Error(ErrorCode::failed_precondition,
                str(call, ": called by replica ", replica, " of a ", name(),
                    "; it speaks for all replicas: call it outside of run, or in the function of a merge_call"));
}

}  // namespace tutti
