#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/distribute/local_strategy.h"
#include "tutti/distribute/partitioner.h"
#include "tutti/distribute/sharded_variable.h"

namespace tutti {

class ServedUpdates;
namespace servers {
class ServedTraining;
}

struct ParameterServerStrategyOptions {
  // Which tasks there are; default: as the launcher says (cluster::from_environment).
  std::optional<cluster::ClusterResolver> cluster_resolver = {};
  Partitioner variable_partitioner = {};
  DeviceList devices = DeviceList::available();  // of a worker, a replica on each
  // With a cluster: of larger variables, in bytes, workers have no copy. They look up their rows (embedding,
  // embedding_bag, index_select along the rows), whose gradients are sparse; any other read is an error.
  std::optional<int64_t> largest_copy_bytes = {};
  int workers = 1;  // without a cluster: how many workers this process has
  // With a cluster: until all tasks have come; and how long one may be silent, though it is waited for, until it counts
  // as lost.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(600);
  std::chrono::milliseconds lost_after = std::chrono::seconds(30);
  // With a cluster: whether tasks of one host, user and table of processes send what they send through memory that they
  // share, a few MB for each pair of them, and not through sockets. The same for all tasks.
  bool shares_memory = true;
};

// Asynchronous training: workers compute what a ClusterCoordinator schedules, each by itself, and servers keep the
// variables. What it says of itself (devices, num_replicas_in_sync, run) is of one worker.
//
// Without a cluster this process is coordinator, server and workers. Then variables lie in its memory, on one device; a
// worker's replicas read copies of them, and an in-place write to a copy is an error. Several workers take turns, a
// function at a time.
//
// With a cluster (tasks chief, worker and ps) every task runs one program: it makes the same variables, optimizers and
// functions in the same order, and then calls the coordinator's run. The rows of a variable lie on the servers that the
// partitioner and RoundRobinPlacer give them; chief and servers have memory for all of it besides, and workers as
// largest_copy_bytes says. One such strategy a process.
// TF: tf.distribute.ParameterServerStrategy.
class ParameterServerStrategy final : public LocalStrategy {
 public:
  // Throws: invalid_argument for a cluster without a worker or a ps, with two chiefs or another kind of task, or for an
  // evaluator's task; for a cluster without a chief, and with `workers`; for no worker; for a largest_copy_bytes below
  // 0; as MirroredStrategy. In a
  // cluster also as Cluster::join; unimplemented for devices other than CPUs, and for a resolver's cluster that is not
  // the launcher's; failed_precondition for a second one.
  explicit ParameterServerStrategy(const ParameterServerStrategyOptions& options = {});
  ~ParameterServerStrategy() override;

  // Whether this task calls what is given to the coordinator's run. Without a cluster it does.
  bool is_coordinator() const;
  // Null without a cluster. For the library's own use.
  const std::shared_ptr<servers::ServedTraining>& training() const { return training_; }
  std::shared_ptr<ServedUpdates> served_updates() const;
  int num_workers() const { return num_workers_; }
  const Partitioner& variable_partitioner() const { return partitioner_; }
  // A variable as the partitioner cuts it: shards that share its memory. In global view.
  // Throws: invalid_argument for a scalar, which has no rows, and as shard_rows.
  ShardedVariable shards(const Tensor& variable) const;

  // As Strategy's, with an input pipeline for each worker: in a function of one, its own. Throws: failed_precondition
  // where there are several and this thread is of none.
  template <class F>
  auto distribute_datasets_from_function(const F& f, const data::InputOptions& options = {}) const {
    const int worker = worker_of_pipelines();
    return LocalStrategy::distribute_datasets_from_function(
        [&](data::InputContext context) {
          context.num_input_pipelines = num_workers_;
          context.input_pipeline_id = worker;
          return f(std::as_const(context));
        },
        options);
  }
  // Whether a coordinator schedules functions now; returns what it was. For the library's own use.
  bool exchange_coordinated(bool coordinated) { return coordinated_.exchange(coordinated); }

 private:
  ParameterServerStrategy(const ParameterServerStrategyOptions& options,
                          std::shared_ptr<servers::ServedTraining> training);
  int worker_of_pipelines() const;

  std::shared_ptr<servers::ServedTraining> training_;
  Partitioner partitioner_;
  int num_workers_;
  std::atomic<bool> coordinated_{false};
};

}  // namespace tutti
