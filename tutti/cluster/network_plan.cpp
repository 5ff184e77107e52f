#include "tutti/cluster/network_plan.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tutti/cluster/rpc/host_address.h"
#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool are_equal_numbers(const Environment& environment, const char* one, const char* other) {
  return environment.has(one) && environment.has(other) && environment.text(one) == environment.text(other);
}

bool all_on_loopback(const ClusterSpec& spec) {
  bool has_any = false;
  for (const auto& [name, job] : spec.jobs())
    for (const auto& [index, address] : job) {
      if (address.empty()) continue;
      has_any = true;
      if (!is_loopback_name(rpc::parse_host_port(address).host)) return false;
    }
  return has_any;
}

bool launcher_says_one_host(const Environment& environment) {
  if (environment.has("RANK")) return are_equal_numbers(environment, "LOCAL_WORLD_SIZE", "WORLD_SIZE");
  if (environment.has("OMPI_COMM_WORLD_RANK"))
    return are_equal_numbers(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE");
  if (environment.has("PMI_RANK")) return are_equal_numbers(environment, "MPI_LOCALNRANKS", "PMI_SIZE");
  return environment.has("SLURM_STEP_NUM_NODES") && environment.text("SLURM_STEP_NUM_NODES") == "1";
}

std::string leader_address_of(const ClusterSpec& spec, const Task& leader, const Environment& environment) {
  if (environment.has("TUTTI_LEADER")) {
    check_told_address("TUTTI_LEADER", leader, environment.text("TUTTI_LEADER"));
    return environment.text("TUTTI_LEADER");
  }
  const std::string& address = spec.address(leader);
  if (address.empty()) return {};
  const bool has_agent = environment.has("TORCHELASTIC_USE_AGENT_STORE") &&
                         environment.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && environment.has("RANK");
  if (!has_agent) return address;
  const rpc::HostPort place = rpc::parse_host_port(address);
  return str(place.host, ':', place.port + 1);
}

bool was_started_with(int pid, const std::string& variable) {
  std::ifstream variables(str("/proc/", pid, "/environ"));
  for (std::string entry; std::getline(variables, entry, '\0');)
    if (entry.starts_with(variable + '=')) return true;
  return false;
}

int parent_of(int pid) {
  constexpr std::string_view kParent = "PPid:";
  std::ifstream status(str("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kParent)) return std::atoi(line.c_str() + kParent.size());
  return 0;
}

// The process that started those of this job here: the nearest one above this that is none of them, as it lacks their
// variable. A shell that is started for each of them is one of them. 0: it is out of sight.
int starter_of_job(const std::string& variable) {
  int pid = getppid();
  while (pid > 0 && was_started_with(pid, variable)) pid = parent_of(pid);
  return pid;
}

// What the tasks of one job on one host have in common, and no other job has.
std::string name_of_job(const std::string& leader_address, const Environment& environment) {
  if (!leader_address.empty()) return std::to_string(rpc::parse_host_port(leader_address).port);
  for (const char* name : {"PMIX_NAMESPACE", "SLURM_JOB_ID"})
    if (environment.has(name)) {
      std::string text;
      for (const char c : environment.text(name)) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return text.substr(0, 60);
    }
  const int starter = environment.has("PMI_RANK") ? starter_of_job("PMI_RANK") : 0;  // MPICH's mpiexec names no job
  return starter > 0 ? str("of-", starter) : std::string();
}

}  // namespace

std::optional<Task> leader_of(const ClusterSpec& spec) {
  for (const char* job : {"chief", "worker"})
    if (spec.num_tasks(job) > 0) return Task{job, spec.jobs().at(job).begin()->first};
  return {};
}

NetworkPlan plan_network(const ClusterSpec& spec, const Task& task, const Environment& environment) {
  const std::optional<Task> leader = leader_of(spec);
  if (!leader)
    throw Error(ErrorCode::failed_precondition,
                str("nobody leads a cluster without a chief and workers: ", to_string(spec)));
  NetworkPlan plan{.leader = *leader, .leader_address = {}};
  plan.leader_address = leader_address_of(spec, plan.leader, environment);
  const bool leader_is_far =
      environment.has("TUTTI_LEADER") && !is_loopback_name(rpc::parse_host_port(plan.leader_address).host);
  plan.is_on_one_host = !leader_is_far && (all_on_loopback(spec) || launcher_says_one_host(environment));
  if (plan.is_on_one_host) {
    const std::string job = name_of_job(plan.leader_address, environment);
    if (!job.empty()) {
      const auto socket_of = [&](const Task& of) {
        return str("unix:/tmp/tutti-", geteuid(), '/', job, '-', of.type, '-', of.index);
      };
      plan.leader_address = socket_of(plan.leader);
      plan.own_address = socket_of(task);
      return plan;
    }
  }
  if (plan.leader_address.empty())
    throw Error(ErrorCode::failed_precondition, str("nobody has said where ", to_string(plan.leader),
                                                    " can be reached: set TUTTI_LEADER=host:port for all "
                                                    "processes, with its host and a port that is free there"));
  plan.own_address = task == plan.leader ? plan.leader_address : spec.address(task);
  return plan;
}

}  // namespace tutti::cluster
