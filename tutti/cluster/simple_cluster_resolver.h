#pragma once

#include "tutti/cluster/cluster_resolver.h"

namespace tutti::cluster {

struct SimpleClusterResolverOptions {
  std::string master = {};  // what master() answers
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::string environment = {};
  std::string rpc_layer = {};
};

// What the program says itself. TF: SimpleClusterResolver.
class SimpleClusterResolver : public ClusterResolver {
 public:
  explicit SimpleClusterResolver(ClusterSpec spec, const SimpleClusterResolverOptions& options = {})
      : ClusterResolver({.spec = std::move(spec),
                         .task_type = options.task_type,
                         .task_id = options.task_id,
                         .rpc_layer = options.rpc_layer,
                         .environment = options.environment,
                         .master = options.master}) {}
};

}  // namespace tutti::cluster
