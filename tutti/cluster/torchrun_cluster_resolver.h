#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

// The processes that torchrun started (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); else the pods of Kubeflow's
// Trainer, in which torchrun would start them (PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR, PET_MASTER_PORT), one
// process in each. Only the address of worker 0 is known.
class TorchrunClusterResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where a variable is not set, invalid_argument for what it cannot be.
  explicit TorchrunClusterResolver(const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
