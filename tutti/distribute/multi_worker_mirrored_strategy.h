#pragma once

#include <chrono>
#include <optional>

#include "tutti/cluster/cluster.h"
#include "tutti/cluster/cluster_resolver.h"
#include "tutti/collectives/communication_options.h"
#include "tutti/distribute/local_strategy.h"

namespace tutti {

struct MultiWorkerMirroredStrategyOptions {
  DeviceList devices = DeviceList::available();  // of this process; all processes have as many
  // Which processes there are; default: as the launcher says (cluster::from_environment).
  std::optional<cluster::ClusterResolver> cluster_resolver = {};
  CommunicationOptions communication_options = {};
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(600);  // until all have come
  MeshOptions mesh = {};
};

// Synchronous training by several processes that run one program: MirroredStrategy over the devices of all. Replicas of
// process p of L devices are p * L … p * L + L - 1. What speaks for all replicas (reduce, gather, merge_call's
// collectives, gradients that are read, values that replicas left in buffers, distributed iterators) is over all
// processes, and every process calls it in the same order; a call that differs throws in each, naming both. New
// variables have the chief's values. Without a cluster it is MirroredStrategy.
// Strategies of one program share its processes. TF: tf.distribute.MultiWorkerMirroredStrategy.
class MultiWorkerMirroredStrategy final : public LocalStrategy {
 public:
  // Waits for all processes. Throws: as MirroredStrategy and Processes::join; invalid_argument where processes have
  // different numbers of devices, and for NCCL with a device that is no GPU; failed_precondition for a task that does
  // not train (a ps, an evaluator); unimplemented for a resolver's cluster that `tutti launch` has not started.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerMirroredStrategyOptions& options = {});

  bool should_checkpoint() const { return is_chief(); }    // TF: extended.should_checkpoint
  bool should_save_summary() const { return is_chief(); }  // TF: extended.should_save_summary
  // This process's place in the cluster; null without one.
  std::shared_ptr<cluster::Cluster> cluster() const;
};

}  // namespace tutti
