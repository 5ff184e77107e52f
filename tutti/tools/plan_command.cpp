#include "tutti/tools/plan_command.h"

#include <iomanip>
#include <ostream>

#include "tutti/cluster/from_environment.h"
#include "tutti/cluster/roles.h"

namespace tutti::tools {
namespace {

using cluster::ClusterSpec;
using cluster::EnvironmentPlan;
using cluster::EnvironmentSource;
using cluster::Task;

void print_sources(const EnvironmentPlan& plan, std::ostream& out) {
  for (const EnvironmentSource& source : plan.sources) {
    out << std::left << std::setw(18) << source.name << to_string(source.state);
    size_t gap = 12 - to_string(source.state).size();
    for (const std::string& variable : source.variables) {
      out << std::string(gap, ' ') << variable;
      gap = 1;
    }
    out << '\n';
  }
}

// "worker 1, rank 1 of 4"; a ps and an evaluator have no rank.
std::string description_of(const ClusterSpec& spec, const Task& task) {
  const bool trains = task.type == "chief" || task.type == "worker";
  if (!trains) return to_string(task);
  return str(to_string(task), ", rank ", id_in_cluster(spec, task), " of ", worker_count(spec, task.type),
             is_chief(spec, task) ? ", the chief" : "");
}

void print_tasks(const ClusterSpec& spec, const Task& own, std::ostream& out) {
  constexpr int kShown = 16;
  int num_shown = 0;
  for (const auto& [name, job] : spec.jobs())
    for (const auto& [index, address] : job) {
      if (num_shown++ >= kShown) continue;
      const Task task{name, index};
      out << "  " << std::left << std::setw(14) << to_string(task) << (address.empty() ? "no address" : address)
          << (task == own ? "   this process" : "") << '\n';
    }
  if (num_shown > kShown) out << "  … and " << num_shown - kShown << " more\n";
}

}  // namespace

int plan_environment(const cluster::Environment& environment, std::ostream& out) {
  const EnvironmentPlan plan = cluster::plan_environment(environment);
  print_sources(plan, out);
  out << '\n';
  if (plan.error) {
    out << "Programs refuse this: " << plan.error->what() << '\n';
    return 1;
  }
  const std::optional<Task> task = plan.resolver.task();
  if (!task) {
    out << "This process is alone: no launcher has said otherwise.\n";
    return 0;
  }
  out << "This process is " << description_of(plan.resolver.cluster_spec(), *task) << ".\n";
  print_tasks(plan.resolver.cluster_spec(), *task, out);
  return 0;
}

}  // namespace tutti::tools
