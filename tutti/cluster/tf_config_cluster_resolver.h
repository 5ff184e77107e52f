#pragma once

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"

namespace tutti::cluster {

struct TFConfigClusterResolverOptions {
  std::optional<std::string> task_type = {};  // each in place of what the variable says
  std::optional<int> task_id = {};
  std::string rpc_layer = {};
  std::string environment = {};
};

// The variable TF_CONFIG: {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}, where
// the index may be a text, with "rpc_layer" and "session_master" if you like; other members are passed over. Without
// the variable, no cluster. master() is empty for a cluster of one. TF: TFConfigClusterResolver.
class TFConfigClusterResolver : public ClusterResolver {
 public:
  // Throws: invalid_argument for what is no such text, with the byte.
  explicit TFConfigClusterResolver(const TFConfigClusterResolverOptions& options = {},
                                   const Environment& environment = Environment::of_process());
};

}  // namespace tutti::cluster
