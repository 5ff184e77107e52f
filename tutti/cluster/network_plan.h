#pragma once

#include <optional>
#include <string>

#include "tutti/cluster/cluster_spec.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

// Where the tasks of a cluster meet that no launcher of ours has started. A value; all tasks come to the same leader.
struct NetworkPlan {
  Task leader;
  std::string leader_address;    // where the leader listens and the others come
  std::string own_address = {};  // where this task listens; empty: on the way to the leader, at any free port
  bool is_on_one_host = false;   // then they meet without a port
  bool is_elastic = false;       // the others go on when one is lost, and one started again is of the same run
};

// The chief, or the first worker; none in a cluster without them.
std::optional<Task> leader_of(const ClusterSpec& spec);

// The leader listens at TUTTI_LEADER where that is set, else at its address in
// the cluster; where torchrun's own agent listens there (TORCHELASTIC_USE_AGENT_STORE=True), at the port behind it.
// Tasks whose addresses are all the loopback's, and those of whom torchrun, mpirun or srun says that they are on one
// host, meet at sockets in a folder of /tmp which only this user may enter. Throws: failed_precondition where no
// address is known (mpirun tells none: TUTTI_LEADER=host:port for all).
NetworkPlan plan_network(const ClusterSpec& spec, const Task& task, const Environment& environment);

}  // namespace tutti::cluster
