#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/collectives/rendezvous.h"
#include "tutti/device/workers.h"
#include "tutti/distribute/strategy.h"
#include "tutti/tensor/random_state.h"
#include "tutti/tensor/spec.h"

namespace tutti {

class CallRecorder;
struct StrategyPlace;

// Runs the replicas of one process: a thread for each, the caller's for the first, each with the replica's view, device
// and random numbers, with the caller's gradient and autocast modes and its current streams of all GPUs, from which it
// may read other replicas' values, and, on a CPU beside others, one intra-op thread.
class ReplicaRunner {
 public:
  ReplicaRunner(Strategy& strategy, const Mesh& mesh, const std::shared_ptr<Processes>& processes = {});

  // Leaves that no scope made join `gradients`. Throws as Strategy::run.
  void run(FunctionRef<void(int replica)> function, const RunOptions& options,
           const std::shared_ptr<GradientGroup>& gradients);
  bool is_running() const { return busy_.load(std::memory_order_relaxed); }

  // Calls function on several threads at once, or once where replicas run; it must not throw.
  void help(FunctionRef<void()> function);

 private:
  void run_one(int replica, FunctionRef<void(int replica)> function, const StrategyPlace& place, CallRecorder* recorder,
               const std::shared_ptr<GradientGroup>& gradients, c10::ArrayRef<c10::Stream> streams);

  Strategy& strategy_;
  const MeshShape* mesh_;
  std::vector<c10::Device> devices_;
  ReplicaGenerators generators_;
  Rendezvous rendezvous_;
  Workers workers_;
  std::mutex running_;  // held for a whole run
  std::atomic<bool> busy_{false};
};

}  // namespace tutti
