#include "tutti/coordinator/cluster_coordinator.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "tutti/coordinator/closure_queue.h"
#include "tutti/coordinator/named_functions.h"
#include "tutti/coordinator/remote_workers.h"
#include "tutti/coordinator/task_service.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/spin.h"

namespace tutti {
namespace {

int64_t positive(const char* option, int64_t value) {
  if (value < 1)
    throw Error(ErrorCode::invalid_argument,
                str("ClusterCoordinator: ", option, " is ", value, "; it must be positive"));
  return value;
}

std::optional<size_t> window_of(const CoordinatorOptions& options) {
  if (!options.functions_under_way) return {};
  return static_cast<size_t>(positive("functions_under_way", *options.functions_under_way));
}

void refuse_on_worker(const char* call) {
  if (WorkerGuard::current() >= 0)
    throw Error(ErrorCode::failed_precondition,
                str("ClusterCoordinator::", call, ": a worker's function would wait for itself"));
}

}  // namespace

struct ClusterCoordinator::State {
  State(ParameterServerStrategy& strategy, const CoordinatorOptions& options)
      : strategy(strategy),
        window(window_of(options)),
        queue(static_cast<size_t>(positive("queue_capacity", options.queue_capacity)),
              spin_limit(strategy.num_workers() + 1)) {
    if (strategy.exchange_coordinated(true))
      throw Error(ErrorCode::failed_precondition,
                  "ClusterCoordinator: the strategy has one, and may have one at a time");
    try {
      if (const auto& training = strategy.training(); training && strategy.is_coordinator())
        remote.emplace(*training, named, queue, window);
      for (int worker = 0; !strategy.training() && worker < strategy.num_workers(); ++worker)
        threads.emplace_back([this, worker] { serve(worker); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~State() { end(); }

  void end() {
    queue.stop();
    for (std::thread& thread : threads) thread.join();
    remote.reset();
    strategy.exchange_coordinated(false);
  }

  // A worker's thread.
  void serve(int worker) {
    const WorkerGuard guard(worker);
    coordinator::ClosureQueue::Batch batch;
    while (queue.take(batch, window.value_or(coordinator::kWindow), threads_expected())) {
      for (const auto& closure : batch.closures) call(worker, *closure, batch);
      queue.finish(batch);
    }
  }
  void call(int worker, coordinator::Closure& closure, const coordinator::ClosureQueue::Batch& batch) {
    // The variables are those of all workers: these take turns.
    std::unique_lock<std::mutex> turn(turns, std::defer_lock);
    if (strategy.num_workers() > 1) turn.lock();
    if (queue.is_cancelled(batch)) return closure.cancel();
    if (auto error = closure.call(worker)) queue.fail(std::move(error));
  }
  size_t threads_expected() const { return static_cast<size_t>(strategy.num_workers()); }

  // When nothing is under way, the variables here are those of the servers.
  template <class F>
  auto then_bring_values(const F& wait) {
    const auto bring = [&] {
      if (remote) remote->after_functions();
    };
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<const F&>>) {
        wait();
        bring();
      } else {
        const auto result = wait();
        if (result) bring();
        return result;
      }
    } catch (const servers::ServerLost&) {
      throw;
    } catch (...) {
      bring();
      throw;
    }
  }

  ParameterServerStrategy& strategy;
  const std::optional<size_t> window;
  coordinator::ClosureQueue queue;
  std::mutex turns;
  std::atomic<bool> driving{false};
  coordinator::NamedFunctions named;
  std::vector<std::thread> threads;
  std::optional<coordinator::RemoteWorkers> remote;  // of a cluster's coordinator
};

ClusterCoordinator::ClusterCoordinator(ParameterServerStrategy& strategy, const CoordinatorOptions& options)
    : state_(std::make_unique<State>(strategy, options)) {}
ClusterCoordinator::~ClusterCoordinator() = default;

ClusterCoordinator::Driving::Driving(ClusterCoordinator& coordinator) : coordinator_(coordinator) {
  if (WorkerGuard::current() >= 0 || coordinator.state_->driving.exchange(true))
    throw Error(ErrorCode::failed_precondition,
                "ClusterCoordinator::run: a run of this coordinator is under way, of which this may be a part");
  auto& remote = coordinator.state_->remote;
  if (!remote) return;
  try {
    remote->begin_run();
  } catch (...) {
    remote->fail_run(std::current_exception());
    coordinator.state_->driving = false;
    throw;
  }
}
ClusterCoordinator::Driving::~Driving() { coordinator_.state_->driving = false; }

void ClusterCoordinator::Driving::end(const coordinator::Bytes& result) {
  if (auto& remote = coordinator_.state_->remote) remote->end_run(result);
}

void ClusterCoordinator::Driving::fail(const std::exception_ptr& error) {
  coordinator_.state_->queue.cancel();
  auto& remote = coordinator_.state_->remote;
  if (!remote) return;
  try {
    remote->after_functions();
  } catch (const Error& lost) {
    warn(str("ClusterCoordinator::run: the coordinator's variables are older than the servers': ", lost.what()));
  }
  remote->fail_run(error);
}

int ClusterCoordinator::add_function(coordinator::NamedFunction function) {
  auto& functions = state_->named.functions;
  if (std::ranges::any_of(functions, [&](const auto& other) { return other.name == function.name; }))
    throw Error(ErrorCode::invalid_argument, str("ClusterCoordinator::function: there is a function '", function.name,
                                                 "'; workers know them by name"));
  functions.push_back(std::move(function));
  return static_cast<int>(functions.size()) - 1;
}

bool ClusterCoordinator::is_in_cluster() const { return state_->strategy.training() != nullptr; }
bool ClusterCoordinator::serves() const { return is_in_cluster() && !state_->strategy.is_coordinator(); }
coordinator::Bytes ClusterCoordinator::serve() {
  return coordinator::serve_run(*state_->strategy.training(), state_->named);
}

void ClusterCoordinator::refuse_in_cluster(const char* function, const char* what) {
  throw Error(ErrorCode::unimplemented,
              str("ClusterCoordinator: '", function, "': ", what,
                  " does not travel to another process; tensors, Strings, numbers, text and structures of them do, and "
                  "PerWorker values of exactly the parameter's type"));
}

int ClusterCoordinator::num_workers() const { return state_->strategy.num_workers(); }
int ClusterCoordinator::replicas_of_worker() const { return static_cast<int>(state_->strategy.num_replicas_in_sync()); }

void ClusterCoordinator::put(std::shared_ptr<coordinator::Closure> closure) {
  if (WorkerGuard::current() >= 0 || !state_->driving)
    throw Error(ErrorCode::failed_precondition,
                "ClusterCoordinator::schedule: only the coordinator schedules, in the function that run calls");
  if (!state_->remote) return state_->queue.put(std::move(closure));
  try {
    state_->remote->before_functions();
    state_->queue.put(std::move(closure));
  } catch (const servers::ServerLost&) {
    throw;
  } catch (...) {
    state_->remote->after_functions();
    throw;
  }
}

const std::shared_ptr<coordinator::PerWorkerTable>& ClusterCoordinator::identity() const {
  return state_->named.values;
}
void ClusterCoordinator::require_owner(const std::shared_ptr<coordinator::PerWorkerTable>& owner) const {
  if (owner != state_->named.values)
    throw Error(ErrorCode::invalid_argument,
                "ClusterCoordinator::schedule: a PerWorker value of another coordinator; make it by this one");
}

void ClusterCoordinator::join() {
  refuse_on_worker("join");
  state_->then_bring_values([&] { state_->queue.join(); });
}
bool ClusterCoordinator::done() {
  refuse_on_worker("done");
  return state_->then_bring_values([&] { return state_->queue.done(); });
}

}  // namespace tutti
