#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tutti/cluster/cluster.h"
#include "tutti/collectives/group.h"

namespace tutti {

struct ClusterGroupOptions {
  enum class Way {
    automatic,      // shared memory where all members are on one host, else the ring
    shared_memory,  // refused where they are not
    ring,           // over gRPC; on one host through sockets, without a port
    mpi,            // the ring, whose calls' bytes travel by MPI: of all processes that mpirun has started, once a name
  };
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // how long a member waits for the others
  Way way = Way::automatic;
  std::string name = "training";            // of this group; each name makes one group in the life of a cluster
  std::vector<cluster::Task> members = {};  // in the order of their ranks; none: all that train
};

// The group of the chief and the workers of a cluster, or of these members alone, of which this process is one; ranks
// as cluster::id_in_cluster.
// All of them call it, with equal options, and it returns when all have met. The cluster must outlive the group.
// Throws: failed_precondition for a task that does not train (a ps, an evaluator), for shared memory of several hosts,
// and for MPI of other processes than these; deadline_exceeded, unavailable; and what shared_memory_group,
// Cluster::connect and load_mpi throw.
std::unique_ptr<Group> cluster_group(cluster::Cluster& cluster, const ClusterGroupOptions& options = {});

}  // namespace tutti
