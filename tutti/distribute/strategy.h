#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/data/dataset.h"
#include "tutti/data/distributed_dataset.h"
#include "tutti/data/distributed_loader.h"
#include "tutti/data/distributed_tensors.h"
#include "tutti/device/device.h"
#include "tutti/distribute/component_update.h"
#include "tutti/distribute/reduce.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/variable.h"

namespace tutti {

struct BuildOptions {
  // How the replicas' gradients become one: the sum, for losses that are divided by the global batch; the mean, for
  // code whose loss is a mean over its own batch.
  ReduceOp gradients = ReduceOp::sum;
};

struct RunOptions {
  // Lets one replica compute at a time, to find out whether results depend on state that replicas share.
  bool one_at_a_time = false;
};

// Keeps a strategy's scope open on this thread: variables made meanwhile are the strategy's. Returned by scope().
class StrategyScope {
 public:
  virtual ~StrategyScope() = default;
};

// Where a program's variables lie and its computation runs. Changing the object and nothing else moves the program.
// Threads: calls of run from several threads take turns; other calls are as safe as what they touch.
// TF: tf.distribute.Strategy.
class Strategy {
 public:
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  virtual int64_t num_replicas_in_sync() const = 0;
  // The device of each replica.
  virtual const std::vector<Device>& devices() const = 0;

  // Throws: failed_precondition in the scope of another strategy.
  [[nodiscard]] virtual std::unique_ptr<StrategyScope> scope(BuildOptions options = {}) = 0;

  // Calls f in a scope and returns its result. In a replica's function all replicas meet, and replica 0's f runs once.
  template <class F>
  auto build(const F& f, BuildOptions options = {}, std::source_location location = std::source_location::current());

  // Calls f once on each replica, at once, in replica context. A PerReplica argument gives each replica its own value,
  // any other the same one; a tuple or pair is handed over in parts where f takes them so. Returns what each returned.
  // Throws: what a replica throws, unchanged (replica_of tells whose); failed_precondition for a run in a run, or where
  // the replicas' collectives do not match; invalid_argument for a PerReplica of another number of values.
  template <class F, class... Args>
  auto run(const F& f, const Args&... arguments) {
    return run(RunOptions{}, f, arguments...);
  }
  template <class F, class... Args>
  auto run(const RunOptions& options, const F& f, const Args&... arguments);

  // The sum or mean over the replicas; with an axis also over that axis. TF: Strategy.reduce.
  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& values) const { return reduce_tensors(op, values.values()); }
  Tensor reduce(ReduceOp op, const PerReplica<Tensor>& values, int64_t axis) const {
    return reduce_axis(op, values.values(), axis);
  }
  // Of a value that is not per replica: its mean is itself; the sum of it over several replicas is refused.
  Tensor reduce(ReduceOp op, const Tensor& value) const;
  // Of numbers.
  template <class T>
  requires std::is_arithmetic_v<T> T reduce(ReduceOp op, const PerReplica<T>& values)
  const;

  // The value of each replica of this process.
  template <class T>
  std::vector<T> local_results(const PerReplica<T>& values) const {
    return values.values();
  }
  std::vector<Tensor> local_results(const Variable& variable) const { return variable.components(); }

  // Calls f(component, args…) once for each component of a variable, without a graph; a PerReplica argument gives each
  // its own value, any other the same one. Returns what each call returned, or nothing. In a replica's function all
  // replicas meet: f is replica 0's, and every argument is the replica's own. TF: StrategyExtended.update.
  // Throws: failed_precondition for a variable on other devices; invalid_argument for a PerReplica of another number of
  // values; as merge_call.
  template <class F, class... Args>
  auto update(const VariableAt& variable, const F& f, const Args&... arguments) {
    return component_update::call(devices(), variable, f, arguments...);
  }

  // Divides batches among the replicas: of a dataset; of a torch::data loader or any range of batches, which must
  // outlive what is returned; of tensors in memory, cut along axis 0. TF: experimental_distribute_dataset.
  template <class T>
  data::DistributedDataset<T> distribute(const data::Dataset<T>& dataset) const {
    return data::DistributedDataset<T>(dataset, num_replicas(), placement());
  }
  PerReplica<Tensor> distribute(const Tensor& value) const {
    return data::distribute_tensors(value, num_replicas(), placement());
  }
  template <class... Ts>
  PerReplica<std::tuple<Ts...>> distribute(const std::tuple<Ts...>& values) const {
    return data::distribute_tensors(values, num_replicas(), placement());
  }
  template <class Loader>
  requires requires(Loader& loader) {
    loader.begin();
    loader.end();
  }
  data::DistributedLoader<Loader> distribute(Loader& loader) const {
    return data::DistributedLoader<Loader>(loader, num_replicas(), placement());
  }

 protected:
  Strategy() = default;
  // Calls function(replica) once for each replica and returns when all have ended.
  virtual void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) = 0;
  virtual data::Placement placement() const = 0;
  int num_replicas() const { return static_cast<int>(num_replicas_in_sync()); }
};

namespace strategy_internal {

template <class T>
const T& part(const T& value, int) {
  return value;
}
template <class T>
decltype(auto) part(const PerReplica<T>& value, int replica) {
  return value[static_cast<size_t>(replica)];
}

template <class T>
void check_size(const T&, int) {}
template <class T>
void check_size(const PerReplica<T>& value, int num_replicas) {
  if (value.size() != static_cast<size_t>(num_replicas))
    throw Error(ErrorCode::invalid_argument,
                str("run: an argument has values for ", value.size(), " replicas; the strategy has ", num_replicas));
}

// References to the parts of a tuple or pair, or to any other value, as a tuple.
template <class T>
auto parts(const T& value) {
  if constexpr (requires { std::tuple_size<T>::value; })
    return std::apply([](const auto&... part) { return std::tie(part...); }, value);
  else
    return std::tie(value);
}

template <class F, class... Args>
decltype(auto) call(const F& f, const Args&... arguments) {
  if constexpr (std::is_invocable_v<const F&, const Args&...>)
    return f(arguments...);
  else
    return std::apply(f, std::tuple_cat(parts(arguments)...));
}

}  // namespace strategy_internal

template <class F>
auto Strategy::build(const F& f, BuildOptions options, std::source_location location) {
  const auto in_scope = [&](const F& function) {
    const auto open = scope(options);
    return function();
  };
  if (in_cross_replica_context() || !has_strategy()) return in_scope(f);
  using Result = std::invoke_result_t<const F&>;
  struct Payload {
    const F* function;
    std::conditional_t<std::is_void_v<Result>, bool, std::optional<Result>> result{};
  } payload{&f};
  const auto action = [&](std::span<void* const> payloads) {
    const auto at = [&](size_t replica) { return static_cast<Payload*>(payloads[replica]); };
    if constexpr (std::is_void_v<Result>) {
      in_scope(*at(0)->function);
    } else {
      const Result result = in_scope(*at(0)->function);
      for (size_t r = 0; r < payloads.size(); ++r) at(r)->result.emplace(result);
    }
  };
  get_replica_context(location).meet("build", &payload, action, type_key<Payload>());
  if constexpr (!std::is_void_v<Result>) return *std::move(payload.result);
}

template <class F, class... Args>
auto Strategy::run(const RunOptions& options, const F& f, const Args&... arguments) {
  using strategy_internal::call, strategy_internal::part;
  (strategy_internal::check_size(arguments, num_replicas()), ...);
  using Result = std::decay_t<decltype(call(f, part(arguments, 0)...))>;
  if constexpr (std::is_void_v<Result>) {
    run_replicas([&]([[maybe_unused]] int replica) { call(f, part(arguments, replica)...); }, options);
  } else {
    std::vector<std::optional<Result>> results(static_cast<size_t>(num_replicas()));
    run_replicas(
        [&]([[maybe_unused]] int replica) {
          results[static_cast<size_t>(replica)].emplace(call(f, part(arguments, replica)...));
        },
        options);
    std::vector<Result> values;
    values.reserve(results.size());
    for (auto& result : results) values.push_back(*std::move(result));
    return PerReplica<Result>(std::move(values));
  }
}

template <class T>
requires std::is_arithmetic_v<T> T Strategy::reduce(ReduceOp op, const PerReplica<T>& values)
const {
  T sum{};
  for (const T& value : values) sum += value;
  if (op == ReduceOp::sum) return sum;
  if constexpr (std::is_integral_v<T>)
    throw Error(ErrorCode::invalid_argument, "reduce: the mean of integers is no integer; sum them, or convert them");
  else
    return sum / static_cast<T>(values.size());
}

}  // namespace tutti
