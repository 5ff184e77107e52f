#include "tutti/cluster/told_address.h"

#include "tutti/cluster/environment.h"
#include "tutti/cluster/network_plan.h"
#include "tutti/cluster/rpc/host_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {

void check_told_address(std::string_view variable, const Task& task, const std::string& address, int lowest_port) {
  const auto place = rpc::find_host_port(address);
  if (place && place->port >= lowest_port) return;
  throw Error(
      ErrorCode::invalid_argument,
      str(variable, ": the address of ", to_string(task), " is ", visible(address),
          "; it must be host:port, such as node7:2222 or [fe80::1]:2222, with a port from ", lowest_port, " to 65535"));
}

void check_told_addresses(std::string_view variable, const ClusterSpec& spec) {
  const std::optional<Task> leader = leader_of(spec);
  for (const auto& [name, job] : spec.jobs())
    for (const auto& [index, address] : job) {
      const Task task{name, index};
      check_told_address(variable, task, address, spec.num_tasks() > 1 && task == leader ? 1 : 0);
    }
}

}  // namespace tutti::cluster
