#pragma once

#include <map>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

struct SlurmClusterResolverOptions {
  std::map<std::string, int> jobs = {};  // tasks of each, which get ranks in the order of the names; empty: all workers
  int port_base = 8888;                  // of the first task on a host; the next ones count up
  // Which GPUs of its host a task sees: its share, in order, in CUDA_VISIBLE_DEVICES. By default Slurm's own choice
  // stands, and nothing is set. Set before CUDA is used, and while no other thread reads the environment.
  std::optional<int> gpus_per_node = {};
  int gpus_per_task = 1;
  bool auto_set_gpu = true;
  std::string rpc_layer = "grpc";
};

// The tasks of a job step that srun started, from SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST and
// SLURM_STEP_TASKS_PER_NODE. Ranks lie on hosts in Slurm's order (block distribution). TF: SlurmClusterResolver.
class SlurmClusterResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where a variable is not set, or jobs or GPUs do not fit what Slurm gave;
  // invalid_argument for what a variable cannot be.
  explicit SlurmClusterResolver(const SlurmClusterResolverOptions& options = {},
                                const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
