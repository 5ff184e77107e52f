#include "tutti/cluster/cluster_resolver.h"

#include "tutti/core/error.h"

namespace tutti::cluster {

std::optional<Task> ClusterResolver::task() const {
  if (!found_.task_type) return {};
  if (found_.task_id) return Task{*found_.task_type, *found_.task_id};
  throw Error(ErrorCode::invalid_argument,
              str("this process is a ", *found_.task_type, " without an index; give it one"));
}

std::string ClusterResolver::master(const std::optional<Task>& task, std::string_view rpc_layer) const {
  const std::string_view layer = rpc_layer.empty() ? found_.url_layer : rpc_layer;
  if (found_.master_of_all) return *found_.master_of_all;
  if (!task && found_.master) return master_url(layer, *found_.master);
  const std::optional<Task> asked = task ? task : this->task();
  if (!asked) throw Error(ErrorCode::invalid_argument, "which task's address? This process has no task of its own");
  return master_url(layer, found_.spec.address(*asked));
}

std::string master_url(std::string_view rpc_layer, std::string_view address) {
  if (rpc_layer.empty() || address.empty()) return std::string(address);
  return str(rpc_layer, "://", address);
}

}  // namespace tutti::cluster
