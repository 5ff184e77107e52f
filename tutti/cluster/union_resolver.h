#pragma once

#include <vector>

#include "tutti/cluster/cluster_resolver.h"

namespace tutti::cluster {

struct UnionResolverOptions {
  std::optional<std::string> task_type = {};  // by default what the first resolver says
  std::optional<int> task_id = {};
  std::string rpc_layer = {};
};

// Several clusters as one. Tasks that are numbered from 0 without gaps go behind those of the resolvers before; of
// others the numbers stay. TF: UnionResolver.
class UnionResolver : public ClusterResolver {
 public:
  // Throws: invalid_argument for no resolvers, and where two have a task of one number.
  explicit UnionResolver(const std::vector<ClusterResolver>& resolvers, const UnionResolverOptions& options = {});
};

}  // namespace tutti::cluster
