#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>

#include "tutti/collectives/brought.h"
#include "tutti/collectives/reduce_op.h"
#include "tutti/collectives/rendezvous.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/regroup.h"
#include "tutti/core/structure.h"

namespace tutti {

using Tensor = at::Tensor;
class Strategy;

// The strategy that this thread is under: that of the active scope or run; else the default strategy. TF: get_strategy.
Strategy& get_strategy();
// Whether a scope or a run is active on this thread.
bool has_strategy();
// Whether this thread speaks for all replicas: in a scope, or in the function of a merge_call.
bool in_cross_replica_context();

// The view of one replica while its function runs; outside of any scope, of the only replica of the default strategy.
// TF: tf.distribute.ReplicaContext.
class ReplicaContext {
 public:
  // Of the replicas of all processes.
  int replica_id_in_sync_group() const;
  int64_t num_replicas_in_sync() const;
  Strategy& strategy() const { return *strategy_; }

  // Waits for all replicas here; then function(strategy, values…) runs once, in cross-replica context and global view,
  // with these replicas' arguments as PerReplica. In it the strategy's reductions are over all processes. Each replica
  // gets a copy of its result, of each PerReplica in it its value. Ranks:  all, in the same order; else each throws
  // failed_precondition, naming both places. Throws: in every replica what the function throws; cancelled, if another
  // replica failed.
  template <class F, class... Args>
  auto merge_call(const F& function, const Args&... arguments) const;

  // The elementwise sum or mean over the replicas, in replica order, of a tensor or of a structure of them, leaf by
  // leaf (core/structure.h). Each replica gets a copy of its own.
  // Shapes, dtypes: as CrossDeviceOps::batch_reduce; structures equal on all replicas. int32 leaves and others together
  //         are refused, as in TensorFlow.
  // Ranks:  all, in the same order.
  // Grad:   all_reduce, by the same op, of the incoming gradient; that of sparse tensors is refused.
  // Throws: invalid_argument for what differs between replicas or cannot be reduced; as merge_call.
  template <class T>
  T all_reduce(ReduceOp op, const T& nest) const;

  // The replicas' tensors joined along an axis, in replica order; of a structure, leaf by leaf.
  // Shapes: equal but for the axis. Ranks: all, in the same order.
  // Grad:   of the sum over the replicas of the incoming gradients, the part that came from this replica.
  // Throws: as CrossDeviceOps::gather; as merge_call.
  template <class T>
  T all_gather(const T& nest, int64_t axis) const;

  // Where the replicas meet under a name and a key: the last to arrive calls action, in cross-replica context, with
  // what each brought. For the library's own operations.
  template <class T, class Action>
  requires std::invocable<const Action&, Brought<T>>
  void meet(const char* name, T& own, const Action& action, uint64_t key = 0) const {
    meet({.name = name, .key = key, .payload = &own, .payload_type = type_key<T>()},
         [&](std::span<void* const> payloads) { action(Brought<T>(payloads)); });
  }
  // Where they bring nothing.
  template <std::invocable Action>
  void meet(const char* name, const Action& action, uint64_t key = 0) const {
    meet({.name = name, .key = key}, [&](std::span<void* const>) { action(); });
  }
  // Where each gets a copy of what action(brought) returns; what replica r brought is brought[r].own.
  template <class Result, class T, class Action>
  Result meet_for_result(const char* name, const T& own, const Action& action) const;

 private:
  friend ReplicaContext get_replica_context(std::source_location);
  void meet(Operation operation, Rendezvous::Action action) const;
  ReplicaContext(Strategy& strategy, int replica, std::source_location location)
      : strategy_(&strategy), replica_(replica), location_(location) {}

  Strategy* strategy_;
  int replica_;                    // of this process
  std::source_location location_;  // for messages: where get_replica_context() was called
};

// Throws failed_precondition in cross-replica context: use run, or merge_call's arguments.
ReplicaContext get_replica_context(std::source_location location = std::source_location::current());

// Of the leaves of a structure. For the library's own use.
std::vector<Tensor> all_reduce_leaves(const ReplicaContext& context, ReduceOp op, structure::Flat<Tensor> leaves);
std::vector<Tensor> all_gather_leaves(const ReplicaContext& context, structure::Flat<Tensor> leaves, int64_t axis);

template <class T>
T ReplicaContext::all_reduce(ReduceOp op, const T& nest) const {
  return structure::with_leaves<Tensor>(nest, all_reduce_leaves(*this, op, structure::flatten<Tensor>(nest)));
}

template <class T>
T ReplicaContext::all_gather(const T& nest, int64_t axis) const {
  return structure::with_leaves<Tensor>(nest, all_gather_leaves(*this, structure::flatten<Tensor>(nest), axis));
}

template <class Result, class T, class Action>
Result ReplicaContext::meet_for_result(const char* name, const T& own, const Action& action) const {
  struct Share {
    const T& own;
    std::conditional_t<std::is_void_v<Result>, bool, std::optional<Result>> result{};
  } share{own};
  meet(name, share, [&](Brought<Share> brought) {
    if constexpr (std::is_void_v<Result>) {
      action(brought);
    } else {
      const Result result = action(brought);
      for (size_t r = 0; r < brought.size(); ++r) brought[r].result.emplace(result);
    }
  });
  if constexpr (!std::is_void_v<Result>) return *std::move(share.result);
}

template <class F, class... Args>
auto ReplicaContext::merge_call(const F& function, const Args&... arguments) const {
  using Result = std::invoke_result_t<const F&, Strategy&, PerReplica<Args>...>;
  struct Call {
    const F* function;
    std::tuple<const Args*...> arguments;
  };
  const auto merge = [&](const auto& brought) -> Result {
    return [&]<size_t... I>(std::index_sequence<I...>)->Result {
      [[maybe_unused]] const auto column = [&]<size_t J>(std::integral_constant<size_t, J>) {
        using T = std::tuple_element_t<J, std::tuple<Args...>>;
        std::vector<T> values;
        for (size_t r = 0; r < brought.size(); ++r) values.push_back(*std::get<J>(brought[r].own.arguments));
        return PerReplica<T>(std::move(values));
      };
      return (*brought[0].own.function)(*strategy_, column(std::integral_constant<size_t, I>{})...);
    }
    (std::index_sequence_for<Args...>{});
  };
  const Call own{&function, {&arguments...}};
  if constexpr (holds_per_replica<Result>) {
    const Result all = meet_for_result<Result>("merge_call", own, merge);
    return std::decay_t<decltype(at_replica(all, 0))>(at_replica(all, static_cast<size_t>(replica_)));
  } else {
    return meet_for_result<Result>("merge_call", own, merge);
  }
}

}  // namespace tutti
