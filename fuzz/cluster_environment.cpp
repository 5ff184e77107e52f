// The variables of launchers: the first byte says which variable the rest is, of a source that is otherwise whole. What
// is taken has a text that gives the same cluster again; what is not is an error of the plan, and nothing else is
// thrown.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include "tutti/cluster/from_environment.h"
#include "tutti/cluster/tpu_cluster_resolver.h"

using namespace tutti::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Environment::Variables kWhole[] = {
      {{"TUTTI_CLUSTER", ""}},
      {{"TF_CONFIG", ""}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"SLURM_PROCID", "0"},
       {"SLURM_STEP_NUM_TASKS", "2"},
       {"SLURM_STEP_NODELIST", "n[1-2]"},
       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}},
      {{"JOB_COMPLETION_INDEX", "0"}, {"TUTTI_JOB_HOSTS", "a-{0..1}"}},
      {{"DTENSOR_JOBS", "a:1,b:1"}, {"DTENSOR_CLIENT_ID", "0"}, {"DTENSOR_JOB_NAME", "worker"}},
  };
  if (size == 0) return 0;
  size_t which = data[0];
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Environment::Variables variables = kWhole[which % std::size(kWhole)];
  which /= std::size(kWhole);
  std::next(variables.begin(), static_cast<std::ptrdiff_t>(which % variables.size()))->second = text;
  const EnvironmentPlan plan = plan_environment(variables);
  const ClusterSpec& spec = plan.resolver.cluster_spec();
  if (!(ClusterSpec::parse(to_string(spec)) == spec)) std::abort();
  if (!plan.error && !spec.is_empty() && !spec.has(*plan.resolver.task()) && plan.resolver.task_type() != "evaluator")
    std::abort();
  try {
    TPUClusterResolver({.tpu = text}, Environment());
  } catch (const tutti::Error&) {
  }
  return 0;
}
