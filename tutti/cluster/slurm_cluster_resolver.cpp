#include "tutti/cluster/slurm_cluster_resolver.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tutti/cluster/host_list.h"
#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

struct SlurmStep {
  int rank = 0, num_tasks = 0;
  std::vector<std::string> hosts;
  std::vector<int> tasks_per_host;
};

[[noreturn]] void refuse_step(const std::string& what) { throw Error(ErrorCode::failed_precondition, what); }

SlurmStep read_slurm_step(const Environment& environment) {
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"})
    if (!environment.has(name)) refuse_step(str(name, " is not set: start the program by srun, which sets it"));
  SlurmStep step;
  step.num_tasks = environment.integer("SLURM_STEP_NUM_TASKS", 1, kMaxTasks);
  step.rank = environment.integer("SLURM_PROCID", 0, step.num_tasks - 1);
  step.hosts = expand_slurm_hosts(environment.text("SLURM_STEP_NODELIST"));
  step.tasks_per_host = expand_slurm_counts(environment.text("SLURM_STEP_TASKS_PER_NODE"));
  const auto tasks = std::accumulate(step.tasks_per_host.begin(), step.tasks_per_host.end(), int64_t{0});
  if (step.hosts.size() != step.tasks_per_host.size() || tasks != step.num_tasks)
    refuse_step(str("SLURM_STEP_NODELIST names ", step.hosts.size(), " hosts and SLURM_STEP_TASKS_PER_NODE ", tasks,
                    " tasks on ", step.tasks_per_host.size(), "; SLURM_STEP_NUM_TASKS is ", step.num_tasks));
  return step;
}

// Where the task of each rank listens.
std::vector<std::string> slurm_addresses(const SlurmStep& step, int port_base) {
  std::vector<std::string> addresses;
  for (size_t host = 0; host < step.hosts.size(); ++host) {
    const int last_port = port_base + step.tasks_per_host[host] - 1;
    if (port_base < 1 || last_port > 65'535)
      throw Error(ErrorCode::invalid_argument, str("port_base is ", port_base, ", so that ", step.hosts[host],
                                                   " has ports up to ", last_port, "; they go from 1 to 65535"));
    for (int port = port_base; port <= last_port; ++port) addresses.push_back(str(step.hosts[host], ':', port));
  }
  return addresses;
}

void check_gpus(const SlurmStep& step, const SlurmClusterResolverOptions& options) {
  const int64_t tasks = std::ranges::max(step.tasks_per_host);
  if (options.gpus_per_task < 0 || *options.gpus_per_node < 0 || tasks * options.gpus_per_task > *options.gpus_per_node)
    refuse_step(str(tasks, " tasks on a host with ", options.gpus_per_task, " GPUs each need more than the ",
                    *options.gpus_per_node, " GPUs of gpus_per_node; start fewer tasks on a host"));
}

// "2,3" for the second task of a host with two GPUs each.
std::string visible_gpus(const SlurmStep& step, int gpus_per_task) {
  int place = step.rank;  // among the tasks of its host
  for (size_t host = 0; place >= step.tasks_per_host[host]; ++host) place -= step.tasks_per_host[host];
  std::string text;
  for (int i = 0; i < gpus_per_task; ++i) text += str(i > 0 ? "," : "", place * gpus_per_task + i);
  return text;
}

}  // namespace

SlurmClusterResolver::SlurmClusterResolver(const SlurmClusterResolverOptions& options, const Environment& environment)
    : ClusterResolver([&] {
        const SlurmStep step = read_slurm_step(environment);
        auto jobs = options.jobs;
        if (jobs.empty()) jobs.emplace("worker", step.num_tasks);
        const auto asked = std::accumulate(jobs.begin(), jobs.end(), int64_t{0}, [](int64_t sum, const auto& job) {
          if (job.second < 0) refuse_step(str("the job '", job.first, "' has ", job.second, " tasks"));
          return sum + job.second;
        });
        if (asked != step.num_tasks)
          refuse_step(str("the jobs have ", asked, " tasks, SLURM_STEP_NUM_TASKS is ", step.num_tasks));
        if (options.gpus_per_node) check_gpus(step, options);
        const std::vector<std::string> addresses = slurm_addresses(step, options.port_base);
        Found found{.rpc_layer = options.rpc_layer};
        std::map<std::string, std::vector<std::string>> spec;
        auto next = addresses.begin();
        for (const auto& [name, count] : jobs) {
          const auto first = static_cast<int>(next - addresses.begin());
          if (step.rank >= first && step.rank < first + count) {
            found.task_type = name;
            found.task_id = step.rank - first;
          }
          spec[name].assign(next, next + count);
          next += count;
        }
        found.spec = spec;
        check_told_addresses("SLURM_STEP_NODELIST", found.spec);
        if (options.auto_set_gpu && options.gpus_per_node)
          setenv("CUDA_VISIBLE_DEVICES", visible_gpus(step, options.gpus_per_task).c_str(), 1);
        return found;
      }()) {}

}  // namespace tutti::cluster
