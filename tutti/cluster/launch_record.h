#pragma once

#include <string>
#include <string_view>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

// What `tutti launch` tells a process that it starts, in the variable TUTTI_CLUSTER. A value.
struct LaunchRecord {
  ClusterSpec spec;  // without addresses: the processes inherit what they meet in, or learn addresses from the leader
  Task task;
  // File descriptors that it inherits; -1: none.
  int memory = -1;          // of the memory that the chief and the workers share
  int control = -1;         // of the socket at whose other end the leader is
  bool is_elastic = false;  // whether the others go on when one is lost
  std::string leader = {};  // where the launcher of the first host leads, "host:port"; empty: there is only this host

  // Throws: invalid_argument, with the byte, for what is no such text or has no such task.
  static LaunchRecord parse(std::string_view text);
  bool operator==(const LaunchRecord&) const = default;
};

// As parse() reads it.
std::string to_string(const LaunchRecord& record);

// The processes that `tutti launch` started.
class LaunchedClusterResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where TUTTI_CLUSTER is not set, and what LaunchRecord::parse throws.
  explicit LaunchedClusterResolver(const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
