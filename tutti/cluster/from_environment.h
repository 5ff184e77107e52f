#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"
#include "tutti/core/error.h"

namespace tutti::cluster {

// A launcher that tells a process its cluster by variables, and what it told this one.
struct EnvironmentSource {
  enum class State {
    absent,      // it set nothing
    taken,       // what it says is the cluster
    shadowed,    // one before it is taken
    incomplete,  // it set variables that say no cluster; see the plan's error
  };
  std::string name;  // "TF_CONFIG", "torchrun"
  State state = State::absent;
  std::vector<std::string> variables;  // of its own that are set
};
std::string_view to_string(EnvironmentSource::State state);

// How the environment of a process is understood.
struct EnvironmentPlan {
  std::vector<EnvironmentSource> sources;  // all there are, by precedence
  ClusterResolver resolver;                // without a cluster where no source is taken
  std::optional<Error> error;              // of the source that is incomplete: the variable, and the way out
};
EnvironmentPlan plan_environment(const Environment& environment = Environment::of_process());

// The first that applies: TUTTI_CLUSTER (`tutti launch`), TF_CONFIG, torchrun, Kubeflow's Trainer, MPI, Slurm (more
// than one task), the Indexed Job of Kubernetes, DTENSOR_JOBS; else one process alone. What is set and says no cluster
// is an error, never passed over. MPI comes before Slurm because the processes of an mpirun inherit the variables of
// the batch step that it runs in; PMI's variables of srun itself do not count. Throws: failed_precondition,
// invalid_argument.
ClusterResolver from_environment(const Environment& environment = Environment::of_process());

}  // namespace tutti::cluster
