#include "tutti/cluster/union_resolver.h"

#include <algorithm>
#include <set>

#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

bool is_a_list(const ClusterSpec::Job& job) {
  return job.empty() || (job.begin()->first == 0 && job.rbegin()->first == static_cast<int>(job.size()) - 1);
}

ClusterSpec united(const std::vector<ClusterResolver>& resolvers) {
  std::set<std::string> numbered;  // jobs of which some resolver has a part with gaps
  for (const ClusterResolver& resolver : resolvers)
    for (const auto& [name, job] : resolver.cluster_spec().jobs())
      if (!is_a_list(job)) numbered.insert(name);
  std::map<std::string, ClusterSpec::Job> jobs;
  for (const ClusterResolver& resolver : resolvers)
    for (const auto& [name, job] : resolver.cluster_spec().jobs()) {
      ClusterSpec::Job& all = jobs[name];
      const int offset = numbered.contains(name) ? 0 : static_cast<int>(all.size());
      for (const auto& [index, address] : job)
        if (!all.emplace(offset + index, address).second)
          throw Error(ErrorCode::invalid_argument, str("two of the clusters have a ", name, ' ', index));
    }
  return ClusterSpec::of_indexed(std::move(jobs));
}

const ClusterResolver& first_of(const std::vector<ClusterResolver>& resolvers) {
  if (resolvers.empty()) throw Error(ErrorCode::invalid_argument, "a union has at least one resolver");
  return resolvers.front();
}

}  // namespace

UnionResolver::UnionResolver(const std::vector<ClusterResolver>& resolvers, const UnionResolverOptions& options)
    : ClusterResolver({.spec = united(resolvers),
                       .task_type = options.task_type ? options.task_type : first_of(resolvers).task_type(),
                       .task_id = options.task_id ? options.task_id : first_of(resolvers).task_id(),
                       .rpc_layer = options.rpc_layer.empty() ? first_of(resolvers).rpc_layer() : options.rpc_layer,
                       .environment = first_of(resolvers).environment(),
                       .url_layer = options.rpc_layer,
                       .master = first_of(resolvers).master()}) {}

}  // namespace tutti::cluster
