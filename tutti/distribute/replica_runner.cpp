#include "tutti/distribute/replica_runner.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>

#include "tutti/core/error.h"
#include "tutti/core/release_queue.h"
#include "tutti/core/str.h"
#include "tutti/distribute/intra_op_threads.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/tensor/scope.h"

namespace tutti {

ReplicaRunner::ReplicaRunner(Strategy& strategy, const Mesh& mesh, const std::shared_ptr<Processes>& processes)
    : strategy_(strategy),
      mesh_(MeshShape::of(mesh)),
      devices_(mesh_->devices.begin(), mesh_->devices.end()),
      generators_(devices_, processes),
      rendezvous_(static_cast<int>(mesh.num_devices())),
      workers_(static_cast<int>(mesh.num_devices())) {}

void ReplicaRunner::run_one(int replica, FunctionRef<void(int replica)> function, std::mutex* turn,
                            const std::shared_ptr<GradientGroup>& gradients) {
  const auto r = static_cast<size_t>(replica);
  const StrategyPlace place{.strategy = &strategy_, .rendezvous = &rendezvous_, .turn = turn};
  const ThreadViewGuard view({.replica = replica,
                              .mesh = mesh_,
                              .generator = generators_.of(replica),
                              .gradients = &gradients,
                              .strategy = &place});
  std::optional<c10::DeviceGuard> device;
  if (!devices_[r].is_cpu()) device.emplace(devices_[r]);
  std::optional<IntraOpThreads> one_thread;
  if (devices_.size() > 1 && devices_[r].is_cpu()) one_thread.emplace(1);
  std::unique_lock<std::mutex> lock;
  if (turn) lock = std::unique_lock(*turn);
  try {
    function(replica);
    rendezvous_.finish(replica);
  } catch (...) {
    rendezvous_.fail(replica, std::current_exception());
  }
}

void ReplicaRunner::run(FunctionRef<void(int replica)> function, const RunOptions& options,
                        const std::shared_ptr<GradientGroup>& gradients) {
  if (current_rendezvous()) {
    const int replica = ThreadView::current().function_of();
    throw Error(ErrorCode::failed_precondition,
                str("run of a ", strategy_.name(), ": called ",
                    replica < 0 ? "where replicas meet in" : str("by replica ", replica, " of"), " a ",
                    StrategyPlace::current()->strategy->name(), "'s run; a run cannot hold another"));
  }
  if (workers_.lost())
    throw Error(ErrorCode::failed_precondition,
                str("run of a ", strategy_.name(),
                    ": called in a process that fork() made, which has none of the strategy's threads; make a strategy "
                    "in this process"));
  ReleaseQueue::of_this_thread()->release();
  const std::lock_guard lock(running_);
  Scope::make_variables();
  generators_.follow_seed();
  std::mutex turns;
  std::mutex* turn = options.one_at_a_time ? &turns : nullptr;
  busy_.store(true, std::memory_order_relaxed);
  if (const ReplicasCompute computing(mesh_->clock); devices_.size() == 1) {
    run_one(0, function, turn, gradients);
  } else {
    const at::ThreadLocalState caller;
    workers_.run([&](int replica) {
      const at::ThreadLocalStateGuard as_caller(caller);
      run_one(replica, function, turn, gradients);
    });
  }
  busy_.store(false, std::memory_order_relaxed);
  generators_.check_seed();
  const Failure failure = rendezvous_.first_failure();
  rendezvous_.reset();
  if (failure.exception) rethrow(failure);
}

void ReplicaRunner::help(FunctionRef<void()> function) {
  if (workers_.num_ranks() == 1 || workers_.lost() || busy_.load(std::memory_order_relaxed) || !running_.try_lock())
    return function();
  const std::lock_guard lock(running_, std::adopt_lock);
  workers_.run([&](int) { function(); });
}

}  // namespace tutti
