#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/device/free_threads.h"
#include "tutti/keras/batches.h"
#include "tutti/keras/step_runner.h"

namespace tutti::keras {

class Model;

// What the steps of fit need.
struct ServedFit {
  std::map<int64_t, double> class_weight = {};
  FreeThreads* threads = nullptr;
};

// Where a worker reads its batches.
struct WorkerPipeline {
  Batches::Next next = {};
  int64_t read_in = -1;  // the epoch of the last batch
  int64_t ended_in = -1;
};

// What fit, evaluate and predict do in a cluster of workers and servers: every task makes one and calls run, whose
// driver the coordinator calls. Steps of fit read each worker's own pipeline. What evaluate and predict look at is read
// by the coordinator and handed out, batch by batch, so that each counts once, whoever is lost.
class ServedLoops {
 public:
  // Whether these are the model's loops: in a cluster, unless a coordinator's run is under way, whose functions and
  // driver look at the variables that they have.
  static bool are_of(const Strategy& strategy);

  // Builds the model, by the first batch, and for fit the optimizer, where they are not. What is given must outlive it.
  // Throws: as these, and ClusterCoordinator; unimplemented for an optimizer that servers do not have.
  ServedLoops(const Model& model, const Batches& batches, std::optional<ServedFit> fit = {});

  template <class F>
  auto run(const F& driver) {
    return coordinator_.run(driver);
  }

  // For the driver.
  std::unique_ptr<StepRunner> training(int64_t steps_per_epoch);
  std::unique_ptr<StepRunner> evaluation(const Model& model, const Batches& batches, std::optional<int64_t> steps);
  // Hands a batch out. What is returned waits for its outputs, those of each replica.
  using Outputs = std::vector<std::vector<Tensor>>;
  std::function<Outputs()> predict(const PerReplica<Batch>& shards);
  // How many batches are handed out before the first one has come back.
  size_t window() const;

 private:
  using Shards = std::vector<Batch>;  // of each replica
  class Training;
  class Evaluation;

  static ParameterServerStrategy& prepared(const Model& model, const Batches& batches, bool fits);
  std::vector<BatchShares> train(WorkerPipeline& pipeline, int64_t epoch, int64_t count);
  std::vector<BatchShares> test(const std::vector<Shards>& batches) const;
  Outputs outputs(const Shards& shards) const;
  template <class T>
  T fetch(const RemoteValue<T>& value);

  ParameterServerStrategy& strategy_;
  ModelImpl& model_;
  const Batches& batches_;
  const std::optional<ServedFit> fit_;
  ClusterCoordinator coordinator_;
  const PerWorker<WorkerPipeline> pipelines_;
  const WorkerFunction<std::vector<BatchShares>(WorkerPipeline&, int64_t, int64_t)> train_;
  const WorkerFunction<std::vector<BatchShares>(const std::vector<Shards>&)> test_;
  const WorkerFunction<Outputs(const Shards&)> predict_;
};

}  // namespace tutti::keras
