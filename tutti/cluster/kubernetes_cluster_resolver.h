#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

struct KubernetesClusterResolverOptions {
  std::string job = "worker";
  int port = 8470;  // of hosts that are listed without one
  std::string rpc_layer = "grpc";
};

// The pods of an Indexed Job: JOB_COMPLETION_INDEX, which Kubernetes sets, says which of the hosts in TUTTI_JOB_HOSTS
// ("train-{0..3}.train", "a,b:2222") this pod is. Nothing is asked of the cluster's API, so a pod needs no rights
// there. TF: KubernetesClusterResolver, which asks it for pods by label.
class KubernetesClusterResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where a variable is not set, invalid_argument for what it cannot be.
  explicit KubernetesClusterResolver(const KubernetesClusterResolverOptions& options = {},
                                     const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
