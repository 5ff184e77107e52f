#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

struct TPUClusterResolverOptions {
  // "grpc://host:port", several of them with commas, or "local"; absent: KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS, else
  // TPU_NAME. A TPU that is only named would have to be looked up in Google's API, which is not done.
  std::optional<std::string> tpu = {};
  std::string job_name = "worker";
  std::string coordinator_name = {};  // a job of one task more, at this address
  std::string coordinator_address = {};
};

// TPU workers by their endpoints; master() is the first. "local" is no cluster. TF: TPUClusterResolver.
class TPUClusterResolver : public ClusterResolver {
 public:
  // Throws: invalid_argument for an empty name, unimplemented for one without an address, failed_precondition where no
  // variable says any.
  explicit TPUClusterResolver(const TPUClusterResolverOptions& options = {},
                              const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
