#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

// The processes that mpirun started: rank and size by OpenMPI's variables (OMPI_COMM_WORLD_RANK, …_SIZE) or by PMI's
// (PMI_RANK, PMI_SIZE: MPICH, Intel MPI). Addresses are MPI's own affair.
class MpiClusterResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where a variable is not set, invalid_argument for what it cannot be.
  explicit MpiClusterResolver(const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
