#include "tutti/distribute/replica_runner.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/release_queue.h"
#include "tutti/core/str.h"
#include "tutti/device/current_streams.h"
#include "tutti/device/gpu.h"
#include "tutti/distribute/backward_here.h"
#include "tutti/distribute/intra_op_threads.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/distribute/turns.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/gradient_reads.h"
#include "tutti/tensor/scope.h"

namespace tutti {

ReplicaRunner::ReplicaRunner(Strategy& strategy, const Mesh& mesh, const std::shared_ptr<Processes>& processes)
    : strategy_(strategy),
      mesh_(MeshShape::of(mesh)),
      devices_(mesh_->devices.begin(), mesh_->devices.end()),
      generators_(devices_, processes),
      rendezvous_(static_cast<int>(mesh.num_devices())),
      workers_(static_cast<int>(mesh.num_devices())) {}

namespace {

// One of several replicas computes from here to the end of the block, but for where it waits for the others. Requires:
// it takes its first turn at once.
class Turn {
 public:
  Turn(Turns* turns, int replica) : turns_(turns), replica_(replica) {
    if (turns_) turns_->take(replica_);
  }
  ~Turn() {
    if (turns_) turns_->end(replica_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns* turns_;
  int replica_;
};

}  // namespace

void ReplicaRunner::run_one(int replica, FunctionRef<void(int replica)> function, const StrategyPlace& place,
                            CallRecorder* recorder, const std::shared_ptr<GradientGroup>& gradients,
                            c10::ArrayRef<c10::Stream> streams) {
  const auto r = static_cast<size_t>(replica);
  std::optional<RecordGuard> records;
  if (recorder && CallRecorder::current() != recorder) records.emplace(*recorder);
  const ThreadViewGuard view({.replica = replica,
                              .mesh = mesh_,
                              .generator = generators_.of(replica),
                              .gradients = &gradients,
                              .strategy = &place});
  const c10::MultiStreamGuard callers_streams(streams);
  c10::OptionalDeviceGuard device;
  std::optional<BackwardHere> backward_here;
  if (!devices_[r].is_cpu()) {
    device.reset_device(devices_[r]);
    enter_gpu(devices_[r]);
    backward_here.emplace();
  }
  std::optional<IntraOpThreads> one_thread;
  if (devices_.size() > 1 && devices_[r].is_cpu()) one_thread.emplace(1);
  const Turn turn(place.turns, replica);
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
  CallRecorder* const recorder = CallRecorder::current();
  if (recorder) recorder->replicas_run([this](FunctionRef<void()> function) { help(function); });
  host_step("run", {}, {}, [this](at::ArrayRef<Tensor>) { generators_.follow_seed(); });
  std::optional<Turns> turns;  // a recording is of one order of calls
  if (workers_.num_ranks() > 1 && (options.one_at_a_time || recorder)) turns.emplace(workers_.num_ranks());
  const StrategyPlace place{.strategy = &strategy_,
                            .rendezvous = &rendezvous_,
                            .turns = turns ? &*turns : nullptr,
                            .recorded = recorder != nullptr,
                            .first_replica = strategy_.first_local_replica()};
  const bool on_gpus = !std::ranges::all_of(devices_, &c10::Device::is_cpu);
  const auto streams = on_gpus ? current_streams() : c10::SmallVector<c10::Stream, 8>();
  busy_.store(true, std::memory_order_relaxed);
  if (const ReplicasCompute computing(mesh_->clock); devices_.size() == 1) {
    run_one(0, function, place, recorder, gradients, streams);
  } else {
    const at::ThreadLocalState caller;
    GradientReads* const callers_reads = GradientReads::current();
    workers_.run([&](int replica) {
      const at::ThreadLocalStateGuard as_caller(caller);
      const GradientReads::OnThread as_callers(callers_reads);
      run_one(replica, function, place, recorder, gradients, streams);
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
