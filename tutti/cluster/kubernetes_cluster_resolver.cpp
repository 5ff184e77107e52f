#include "tutti/cluster/kubernetes_cluster_resolver.h"

#include "tutti/cluster/host_list.h"
#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {

KubernetesClusterResolver::KubernetesClusterResolver(const KubernetesClusterResolverOptions& options,
                                                     const Environment& environment)
    : ClusterResolver([&] {
        if (!environment.has("TUTTI_JOB_HOSTS"))
          throw Error(ErrorCode::failed_precondition,
                      "TUTTI_JOB_HOSTS is not set: list the pods of the Job in it, \"NAME-{0..3}.SERVICE\"");
        if (!environment.has("JOB_COMPLETION_INDEX"))
          throw Error(
              ErrorCode::failed_precondition,
              "JOB_COMPLETION_INDEX is not set, though TUTTI_JOB_HOSTS is: give the Job completionMode: Indexed");
        const auto hosts = expand_braces(environment.text("TUTTI_JOB_HOSTS"), options.port);
        const int index = environment.integer("JOB_COMPLETION_INDEX", 0, kMaxTasks - 1);
        if (index >= static_cast<int>(hosts.size()))
          throw Error(ErrorCode::invalid_argument,
                      str("JOB_COMPLETION_INDEX is ", index, ", and TUTTI_JOB_HOSTS lists ", hosts.size(),
                          " pods: list as many as the Job has completions"));
        const ClusterSpec spec({{options.job, hosts}});
        check_told_addresses("TUTTI_JOB_HOSTS", spec);
        return Found{.spec = spec, .task_type = options.job, .task_id = index, .rpc_layer = options.rpc_layer};
      }()) {}

}  // namespace tutti::cluster
