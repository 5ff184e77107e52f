#include "tutti/cluster/from_environment.h"

#include "tutti/cluster/dtensor_jobs_resolver.h"
#include "tutti/cluster/kubernetes_cluster_resolver.h"
#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/mpi_cluster_resolver.h"
#include "tutti/cluster/roles.h"
#include "tutti/cluster/slurm_cluster_resolver.h"
#include "tutti/cluster/tf_config_cluster_resolver.h"
#include "tutti/cluster/torchrun_cluster_resolver.h"

namespace tutti::cluster {
namespace {

bool is_other_than(const Environment& environment, const char* name, std::string_view value) {
  return environment.has(name) && environment.text(name) != value;
}

// srun sets PMI's variables too, and knows the hosts besides.
bool is_pmi_of_srun(const Environment& environment) {
  return is_other_than(environment, "SLURM_STEP_NUM_TASKS", "1") && environment.has("PMI_SIZE") &&
         environment.text("PMI_SIZE") == environment.text("SLURM_STEP_NUM_TASKS");
}

ClusterResolver tf_config(const Environment& environment) {
  TFConfigClusterResolver resolver({}, environment);
  if (resolver.cluster_spec().is_empty())
    throw Error(ErrorCode::failed_precondition, "TF_CONFIG has no \"cluster\": give it one");
  const std::optional<Task> task = resolver.task();
  if (!task)
    throw Error(ErrorCode::failed_precondition, "TF_CONFIG has no \"task\" with a type: say which this process is");
  is_chief(resolver.cluster_spec(), task);                                // throws for tasks and jobs that cannot be
  if (task->type != "evaluator") resolver.cluster_spec().address(*task);  // and this for a gap between indices
  return resolver;
}

struct Source {
  const char* name;
  std::vector<const char*> variables;
  bool (*is_set)(const Environment&);
  ClusterResolver (*resolve)(const Environment&);
};

const std::vector<Source>& all_sources() {
  using E = const Environment&;
  static const std::vector<Source> sources{
      {"tutti launch",
       {"TUTTI_CLUSTER"},
       [](E e) { return e.has("TUTTI_CLUSTER"); },
       [](E e) -> ClusterResolver { return LaunchedClusterResolver(e); }},
      {"TF_CONFIG", {"TF_CONFIG"}, [](E e) { return e.has("TF_CONFIG"); }, tf_config},
      {"torchrun",
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       [](E e) { return e.has("RANK") || e.has("WORLD_SIZE"); },
       [](E e) -> ClusterResolver { return TorchrunClusterResolver(e); }},
      {"Kubeflow Trainer",
       {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
       [](E e) { return e.has("PET_NODE_RANK") || e.has("PET_NNODES"); },
       [](E e) -> ClusterResolver { return TorchrunClusterResolver(e); }},
      {"MPI",
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"},
       [](E e) {
         return e.has("OMPI_COMM_WORLD_RANK") || e.has("OMPI_COMM_WORLD_SIZE") ||
                ((e.has("PMI_RANK") || e.has("PMI_SIZE")) && !is_pmi_of_srun(e));
       },
       [](E e) -> ClusterResolver { return MpiClusterResolver(e); }},
      {"Slurm",
       {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"},
       [](E e) { return is_other_than(e, "SLURM_STEP_NUM_TASKS", "1"); },
       [](E e) -> ClusterResolver { return SlurmClusterResolver({.auto_set_gpu = false}, e); }},
      {"Kubernetes Job",
       {"JOB_COMPLETION_INDEX", "TUTTI_JOB_HOSTS"},
       [](E e) { return e.has("JOB_COMPLETION_INDEX") || e.has("TUTTI_JOB_HOSTS"); },
       [](E e) -> ClusterResolver { return KubernetesClusterResolver({}, e); }},
      {"DTensor",
       {"DTENSOR_JOBS", "DTENSOR_CLIENT_ID", "DTENSOR_JOB_NAME"},
       [](E e) { return is_other_than(e, "DTENSOR_JOBS", ""); },
       [](E e) -> ClusterResolver { return DTensorJobsResolver(e); }},
  };
  return sources;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string_view to_string(EnvironmentSource::State state) {
  switch (state) {
    case EnvironmentSource::State::absent: return "absent";
    case EnvironmentSource::State::taken: return "taken";
    case EnvironmentSource::State::shadowed: return "shadowed";
    case EnvironmentSource::State::incomplete: return "incomplete";
  }
  return "unknown";
}

EnvironmentPlan plan_environment(const Environment& environment) {
  using State = EnvironmentSource::State;
  EnvironmentPlan plan;
  bool is_decided = false;
  for (const Source& source : all_sources()) {
    EnvironmentSource& seen = plan.sources.emplace_back();
    seen.name = source.name;
    for (const char* variable : source.variables)
      if (environment.has(variable)) seen.variables.emplace_back(variable);
    if (!source.is_set(environment)) continue;
    if (std::exchange(is_decided, true)) {
      seen.state = State::shadowed;
      continue;
    }
    try {
      plan.resolver = source.resolve(environment);
      seen.state = State::taken;
    } catch (const Error& error) {
      seen.state = State::incomplete;
      plan.error.emplace(error.code(), str(error.what(), "; or, if this is not meant, unset ", joined(seen.variables)));
    }
  }
  return plan;
}

ClusterResolver from_environment(const Environment& environment) {
  EnvironmentPlan plan = plan_environment(environment);
  if (plan.error) throw Error(*plan.error);
  return plan.resolver;
}

}  // namespace tutti::cluster
