#pragma once

#include <concepts>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/regroup.h"
#include "tutti/device/device.h"
#include "tutti/distribute/call_in_parts.h"
#include "tutti/distribute/component_update.h"
#include "tutti/distribute/cross_device_ops.h"
#include "tutti/distribute/input_distribution.h"
#include "tutti/distribute/leaf_columns.h"
#include "tutti/distribute/reduce.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/strategy_options.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/sum_buffers.h"
#include "tutti/tensor/view.h"

namespace tutti {

// Where a program's variables lie and its computation runs. Changing the object and nothing else moves the program.
// Threads: calls of run from several threads take turns; other calls are as safe as what they touch.
// TF: tf.distribute.Strategy.
class Strategy : public InputDistribution {
 public:
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  // "MirroredStrategy"
  virtual std::string_view name() const = 0;
  // Whether this process does what one alone does: it is the chief of several, or the only one.
  bool is_chief() const { return first_local_replica() == 0; }
  // The device of each replica of this process.
  virtual const std::vector<Device>& devices() const = 0;

  // Throws: failed_precondition in another strategy's scope or run, and in a replica's function.
  [[nodiscard]] virtual std::unique_ptr<StrategyScope> scope(
      BuildOptions options = {}, std::source_location location = std::source_location::current()) = 0;

  // Calls f in a scope and returns its result. In a replica's function all replicas meet, and replica 0's f runs once.
  template <class F>
  auto build(const F& f, BuildOptions options = {}, std::source_location location = std::source_location::current());

  // Calls f once on each replica, at once, in replica context. A PerReplica argument, also in a structure, gives each
  // replica its own value, any other the same one; a tuple or pair is handed over in parts where f takes them so.
  // Returns what each returned: a variable as the variable, of which local(w) is the replica's value.
  // Throws: what a replica throws, unchanged (replica_of tells whose); failed_precondition for a run in a run, or where
  // the replicas' collectives do not match; invalid_argument for a PerReplica of another number of values.
  template <class F, class... Args>
  auto run(const F& f, const Args&... arguments) {
    return run(RunOptions{}, f, arguments...);
  }
  template <class F, class... Args>
  auto run(const RunOptions& options, const F& f, const Args&... arguments);

  // How this strategy's values are reduced, broadcast and gathered.
  virtual const CrossDeviceOps& cross_device_ops() const;

  // The elementwise sum or mean over the replicas, and over axes: then it is the mean of all elements, exact where
  // shards differ. Of tensors, of structures of them (core/structure.h) leaf by leaf, of numbers. TF: Strategy.reduce.
  // Shapes, dtypes: as CrossDeviceOps::batch_reduce; shards may differ along the axes. Device: of the first value.
  // Throws: as that; out_of_range for an axis that is not there; failed_precondition in a replica's function.
  template <class T>
  T reduce(ReduceOp op, const PerReplica<T>& values, const Axes& axes = {}) const;
  // Of a value that is not per replica: its mean is itself; its sum over several replicas, or of a variable, is
  // refused. With several processes a plain tensor is what this process has: its sum or mean is over the processes.
  Tensor reduce(ReduceOp op, const Tensor& value, const Axes& axes = {}) const;

  // The sum or mean over the replicas, on each destination, in their order. TF: StrategyExtended.reduce_to.
  PerReplica<Tensor> reduce_to(ReduceOp op, const PerReplica<Tensor>& values, const Destinations& destinations) const;
  PerReplica<Tensor> reduce_to(ReduceOp op, const Tensor& value, const Destinations& destinations) const;
  // The same of several values at once. int32 and other dtypes together are refused, as in TensorFlow.
  std::vector<PerReplica<Tensor>> batch_reduce_to(
      ReduceOp op, const std::vector<std::pair<PerReplica<Tensor>, Destinations>>& values_and_destinations) const;

  // The replicas' values joined along an axis, in replica order: a tensor or a structure of them. TF: Strategy.gather.
  // Shapes, Throws: as CrossDeviceOps::gather; failed_precondition in a replica's function.
  template <class T>
  T gather(const PerReplica<T>& values, int64_t axis) const;

  // Sets the result of each item, whose values are what replicas left for one variable. For the library's own use.
  virtual void reduce_gradients(std::span<BufferSum> items) const { sum_buffers(items); }
  // Replicas are about to run, or to go on where they met: see GradientGroup. For the library's own use.
  virtual void give_gradients() {}
  // Replaces numbers by their sums over the processes. For the library's own use.
  void sum_over_processes(std::span<int64_t> numbers, const char* name) const;

  // The value of each replica of this process: of a PerReplica its values; of a structure that holds some (regroup.h) a
  // structure for each replica; of any other value the value alone. TF: experimental_local_results.
  template <class T>
  auto local_results(const T& value) const;
  std::vector<Tensor> local_results(const Variable& variable) const { return variable.components(); }

  // Calls f(ValueContext) for each replica, in their order, on this thread and outside of scopes; what it returns is
  // the replica's. TF: experimental_distribute_values_from_function.
  template <class F>
  auto values_from_function(const F& f) const;

  // Calls f(component, args…) once for each component of a variable, without a graph; a PerReplica argument gives each
  // its own value, any other the same one. Returns what each call returned, or nothing. In a replica's function all
  // replicas meet: f is replica 0's, and every argument is the replica's own. TF: StrategyExtended.update.
  // Throws: failed_precondition for a variable on other devices; invalid_argument for a PerReplica of another number of
  // values; as merge_call.
  template <class F, class... Args>
  auto update(const VariableAt& variable, const F& f, const Args&... arguments) {
    return component_update::call(devices(), variable, f, arguments...);
  }

 protected:
  Strategy() = default;
  // Calls function(replica) once for each replica and returns when all have ended.
  virtual void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) = 0;

  // Throw failed_precondition: for a call on a thread that is in the scope or the run of another strategy; for one that
  // speaks for all replicas, in the function of one.
  void refuse_other_strategy(const char* call, std::source_location location = {}) const;
  void require_cross_replica(const char* call) const final;

 private:
  // Leaf by leaf; each has a value for each replica.
  std::vector<Tensor> reduce_leaves(ReduceOp op, std::vector<PerReplica<Tensor>> leaves, const Axes& axes) const;
  std::vector<Tensor> gather_leaves(const std::vector<PerReplica<Tensor>>& leaves, int64_t axis) const;
  Tensor reduce_of_processes(ReduceOp op, const Tensor& value, const Axes& axes) const;
  std::vector<std::vector<uint8_t>> gather_bytes(std::span<const uint8_t> own) const;
  template <class T>
  PerReplica<T> of_all_processes(const PerReplica<T>& numbers) const;
};

template <class F>
auto Strategy::build(const F& f, BuildOptions options, std::source_location location) {
  const auto in_scope = [&](const F& function) {
    const auto open = scope(options, location);
    if constexpr (std::is_void_v<std::invoke_result_t<const F&>>) {
      function();
      open->finish();
    } else {
      auto result = function();
      open->finish();
      return result;
    }
  };
  if (!in_replica_function()) return in_scope(f);
  using Result = std::invoke_result_t<const F&>;
  const auto first = [&](const auto& brought) -> Result { return in_scope(brought[0].own); };
  return get_replica_context(location).template meet_for_result<Result>("build", f, first);
}

template <class F, class... Args>
auto Strategy::run(const RunOptions& options, const F& f, const Args&... arguments) {
  const auto num_replicas = static_cast<size_t>(num_local_replicas());
  (check_replicas("run", arguments, num_replicas), ...);
  const auto call = [&]([[maybe_unused]] int replica) -> decltype(auto) {
    return call_in_parts(f, at_replica(arguments, static_cast<size_t>(replica))...);
  };
  using Result = std::decay_t<decltype(call(0))>;
  if constexpr (std::is_void_v<Result>) {
    run_replicas(call, options);
  } else {
    std::vector<std::optional<Result>> results(num_replicas);
    run_replicas([&](int replica) { results[static_cast<size_t>(replica)].emplace(call(replica)); }, options);
    std::vector<Result> values;
    values.reserve(results.size());
    for (auto& result : results) values.push_back(*std::move(result));
    return PerReplica<Result>(std::move(values));
  }
}

template <class T>
auto Strategy::local_results(const T& value) const {
  if constexpr (is_per_replica<T>) {
    return value.values();
  } else if constexpr (holds_per_replica<T>) {
    check_replicas("local_results", value, static_cast<size_t>(num_local_replicas()));
    std::vector<std::decay_t<decltype(at_replica(value, 0))>> results;
    for (int r = 0; r < num_local_replicas(); ++r) results.push_back(at_replica(value, static_cast<size_t>(r)));
    return results;
  } else {
    return std::vector<T>{value};
  }
}

template <class F>
auto Strategy::values_from_function(const F& f) const {
  require_cross_replica("values_from_function");
  const ThreadViewGuard outside({});
  std::vector<std::decay_t<std::invoke_result_t<const F&, ValueContext>>> values;
  for (int r = 0; r < num_local_replicas(); ++r)
    values.push_back(f(ValueContext{.replica_id_in_sync_group = first_local_replica() + r,
                                    .num_replicas_in_sync = num_replicas_in_sync()}));
  return PerReplica(std::move(values));
}

template <class T>
PerReplica<T> Strategy::of_all_processes(const PerReplica<T>& numbers) const {
  if (num_local_replicas() == num_replicas_in_sync()) return numbers;
  std::vector<uint8_t> own(numbers.size() * sizeof(T));
  for (size_t r = 0; r < numbers.size(); ++r) {
    const T number = numbers[r];
    std::memcpy(own.data() + r * sizeof(T), &number, sizeof(T));
  }
  std::vector<T> all;
  for (const std::vector<uint8_t>& bytes : gather_bytes(own))
    for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T number;
      std::memcpy(&number, bytes.data() + at, sizeof(T));
      all.push_back(number);
    }
  return PerReplica<T>(std::move(all));
}

template <class T>
T Strategy::reduce(ReduceOp op, const PerReplica<T>& values, const Axes& axes) const {
  require_cross_replica("reduce");
  if constexpr (std::is_arithmetic_v<T>) {
    if (!axes.empty()) throw Error(ErrorCode::out_of_range, "reduce: numbers have no axes");
    return reduce_numbers(op, of_all_processes(values));
  } else {
    auto reduced = reduce_leaves(op, leaf_columns("reduce", values), axes);
    return structure::with_leaves<Tensor>(values[0], std::move(reduced));
  }
}

template <class T>
T Strategy::gather(const PerReplica<T>& values, int64_t axis) const {
  require_cross_replica("gather");
  auto gathered = gather_leaves(leaf_columns("gather", values), axis);
  return structure::with_leaves<Tensor>(values[0], std::move(gathered));
}

}  // namespace tutti
