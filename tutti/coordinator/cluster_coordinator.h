#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/coordinator/closure.h"
#include "tutti/coordinator/function_signature.h"
#include "tutti/coordinator/named_function.h"
#include "tutti/coordinator/per_worker.h"
#include "tutti/coordinator/remote_value.h"
#include "tutti/coordinator/travel.h"
#include "tutti/core/error.h"
#include "tutti/data/input_context.h"
#include "tutti/distribute/current_worker.h"
#include "tutti/distribute/parameter_server_strategy.h"

namespace tutti {

struct CoordinatorOptions {
  int64_t queue_capacity = 262'144;  // functions that wait; then schedule does. TF's
  // Handed to a worker before the first of them has ended. Default: 8, and in a cluster up to 1024 of such that end in
  // less than a millisecond together.
  std::optional<int> functions_under_way = {};
};

// Gives functions to workers as they become free. Every task of a program constructs it and makes the same functions
// and datasets, in one order; then every task calls run. One for each strategy at a time, which must outlive it. TF:
// tf.distribute.coordinator.ClusterCoordinator.
class ClusterCoordinator {
 public:
  // Throws: failed_precondition where the strategy has one; invalid_argument for options that are not positive.
  explicit ClusterCoordinator(ParameterServerStrategy& strategy, const CoordinatorOptions& options = {});
  // Cancels what has not begun and waits for what has.
  ~ClusterCoordinator();

  // Names a function for workers. Const parameters travel with each call: tensors, Strings, numbers, text, and
  // structures of them, as copies, which results are too. Others are references to PerWorker values. Generic and
  // `mutable` lambdas do not compile. Throws: invalid_argument for a name that another one has.
  template <class F>
  auto function(const std::string& name, F f, std::source_location location = std::source_location::current())
      -> WorkerFunction<typename coordinator::Signature<F>::type> {
    using S = typename coordinator::Signature<F>::type;
    const auto call = std::make_shared<const std::function<S>>(std::move(f));
    return {name, add_function({name, typeid(S), location, coordinator::named_call(call)}), call};
  }

  // f() or f(InputContext) makes a Dataset, or a DistributedDataset of the strategy. It is called on each worker,
  // outside of scopes, when a function first needs it.
  template <class F>
  auto create_per_worker_dataset(F f, std::source_location location = std::source_location::current()) {
    const auto make = [f, n = num_workers(), replicas = replicas_of_worker()](int worker) {
      if constexpr (std::is_invocable_v<const F&, const data::InputContext&>)
        return f(data::InputContext{
            .num_input_pipelines = n, .input_pipeline_id = worker, .num_replicas_in_sync = replicas});
      else
        return f();
    };
    using Data = decltype(make(0));
    return PerWorkerDataset<Data>(num_workers(), PerWorker<Data>(identity(), num_workers(), make, location));
  }
  template <class F>
  auto create_per_worker_value(F f, std::source_location location = std::source_location::current()) {
    using T = std::invoke_result_t<const F&>;
    return PerWorker<T>(
        identity(), num_workers(), [f](int) { return f(); }, location);
  }

  // Calls driver, which schedules, then joins; returns its result. Throws: what the driver throws, after all that was
  // scheduled has been cancelled or has ended; what join throws; failed_precondition for a run in a run.
  // In a cluster every task calls it. Workers and servers do not call driver: they serve until the coordinator has, and
  // return its result, so that all tasks go on alike. Throws there: cancelled, where driver threw; unavailable where
  // the coordinator is lost, and in a worker where a server is. In all: failed_precondition where tasks have made
  // different things, unimplemented for a result that does not travel.
  template <class F>
  auto run(const F& driver) -> std::invoke_result_t<const F&> {
    using R = std::invoke_result_t<const F&>;
    if constexpr (!coordinator::can_travel<R>) {
      if (is_in_cluster()) refuse_in_cluster("run", "what the function returns");
    } else if (serves()) {
      const coordinator::Bytes bytes = serve();
      if constexpr (std::is_void_v<R>) {
        return;
      } else {
        ByteReader reader(bytes, "the result of a run");
        auto result = coordinator::read_value<R>(reader);
        reader.finish();
        return result;
      }
    }
    Driving driving(*this);
    try {
      if constexpr (std::is_void_v<R>) {
        driver();
        join();
        driving.end({});
      } else {
        R result = driver();
        join();
        ByteWriter bytes;
        if constexpr (coordinator::can_travel<R>)
          if (is_in_cluster()) coordinator::write_value<R>(bytes, result);
        driving.end(bytes.bytes());
        return result;
      }
    } catch (...) {
      driving.fail(std::current_exception());
      throw;
    }
  }

  // Returns at once, or when the queue has room. Arguments are the function's own from now on. Throws: the first error
  // of a function that was scheduled before, once; all that had not begun are then cancelled and nothing is under way;
  // failed_precondition outside of run, and on a worker; invalid_argument for a PerWorker value of another coordinator.
  // In a cluster also: unavailable, for good, where a server or the last worker is lost; unimplemented for what does
  // not travel to another process.
  template <class R, class... P, class... Args>
  RemoteValue<R> schedule(const WorkerFunction<R(P...)>& function, const Args&... arguments) {
    static_assert(!std::is_reference_v<R>, "a worker's function returns a value");
    static_assert(sizeof...(P) == sizeof...(Args), "schedule: as many arguments as the function takes");
    static_assert((coordinator::fits<P, Args>() && ...),
                  "schedule: a reference that is not const takes a PerWorker value, any other parameter what converts");
    (require_own(arguments), ...);
    if (is_in_cluster()) return schedule_elsewhere(function, arguments...);
    auto call = std::make_shared<Call<R(P...), coordinator::Kept<P, Args>...>>(
        function.call(), coordinator::Kept<P, Args>(keep<P>(arguments))...);
    put(call);
    return RemoteValue<R>(std::move(call));
  }
  // Waits until all that was scheduled has ended. Throws: as schedule.
  void join();
  // Whether all has. Throws: as schedule.
  bool done();

  template <class T>
  T fetch(const RemoteValue<T>& value) const {
    return value.fetch();
  }
  template <class T>
  std::vector<T> fetch(const std::vector<RemoteValue<T>>& values) const {
    std::vector<T> all;
    all.reserve(values.size());
    for (const auto& value : values) all.push_back(value.fetch());
    return all;
  }

 private:
  // A run.
  class Driving {
   public:
    explicit Driving(ClusterCoordinator& coordinator);
    ~Driving();
    // The other tasks end it too.
    void end(const coordinator::Bytes& result);
    void fail(const std::exception_ptr& error);
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

   private:
    ClusterCoordinator& coordinator_;
  };

  template <class Signature, class... Arguments>
  class Call;
  template <class R, class... P, class... Arguments>
  class Call<R(P...), Arguments...> final : public coordinator::Result<R> {
   public:
    Call(std::shared_ptr<const std::function<R(P...)>> function, Arguments... arguments)
        : function_(std::move(function)), arguments_(std::in_place, std::move(arguments)...) {}

   private:
    void run(int worker) override {
      const auto call = [&](auto&... arguments) -> R { return (*function_)(at(arguments, worker)...); };
      if constexpr (std::is_void_v<R>)
        std::apply(call, *arguments_);
      else
        this->value_.emplace(coordinator::travel<R>(std::apply(call, *arguments_)));
    }
    void drop_arguments() override {
      arguments_.reset();
      function_.reset();
    }
    template <class A>
    static decltype(auto) at(A& argument, int worker) {
      if constexpr (coordinator::is_per_worker<A>)
        return (argument.at(worker));
      else
        return std::move(argument);
    }

    std::shared_ptr<const std::function<R(P...)>> function_;
    std::optional<std::tuple<Arguments...>> arguments_;
  };

  template <class P, class A>
  static auto keep(const A& argument) {
    if constexpr (coordinator::is_per_worker<A>)
      return argument;
    else
      return coordinator::travel<std::remove_cvref_t<P>>(static_cast<std::remove_cvref_t<P>>(argument));
  }

  // A function that a worker in another process calls.
  template <class R, class... P, class... Args>
  RemoteValue<R> schedule_elsewhere(const WorkerFunction<R(P...)>& function, const Args&... arguments) {
    if constexpr (coordinator::can_travel<R> && (coordinator::can_be_sent<P, Args>() && ...)) {
      ByteWriter own;
      (coordinator::write_argument<P>(own, arguments), ...);
      auto call = std::make_shared<coordinator::RemoteCall<R>>(function.number(), std::move(own));
      put(call);
      return RemoteValue<R>(std::move(call));
    } else {
      refuse_in_cluster(function.name().c_str(), "what it takes or returns");
    }
  }

  // Each coordinator's workers have values of their own.
  template <class A>
  void require_own(const A& argument) const {
    if constexpr (coordinator::is_per_worker<A>) require_owner(argument.owner());
  }

  int add_function(coordinator::NamedFunction function);
  const std::shared_ptr<coordinator::PerWorkerTable>& identity() const;
  void require_owner(const std::shared_ptr<coordinator::PerWorkerTable>& owner) const;
  bool is_in_cluster() const;
  bool serves() const;  // this task is a worker or a server
  coordinator::Bytes serve();
  [[noreturn]] static void refuse_in_cluster(const char* function, const char* what);
  int num_workers() const;
  int replicas_of_worker() const;
  void put(std::shared_ptr<coordinator::Closure> closure);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
