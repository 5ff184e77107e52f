#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

// DTensor's variables: DTENSOR_JOBS ("a:2222,b:2222"; empty: no cluster), DTENSOR_CLIENT_ID, which may be absent where
// there is one job, and DTENSOR_JOB_NAME ("worker"). TF: tensorflow/dtensor/python/config.py.
class DTensorJobsResolver : public ClusterResolver {
 public:
  // Throws: failed_precondition where a variable is not set, invalid_argument for what it cannot be.
  explicit DTensorJobsResolver(const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
