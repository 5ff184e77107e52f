#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tutti/cluster/cluster_spec.h"

namespace tutti::cluster {

// Who is in the cluster, and which task this process is: a value. Each kind of resolver is a class of its own that adds
// nothing but how it finds this out when it is made; so does one of yours. TF: tf.distribute.cluster_resolver.
class ClusterResolver {
 public:
  // A program without a cluster.
  ClusterResolver() = default;

  const ClusterSpec& cluster_spec() const { return found_.spec; }
  const std::optional<std::string>& task_type() const { return found_.task_type; }
  std::optional<int> task_id() const { return found_.task_id; }
  // Both in one; absent without a type. Throws: invalid_argument for a type without an index.
  std::optional<Task> task() const;
  const std::string& rpc_layer() const { return found_.rpc_layer; }      // empty: none
  const std::string& environment() const { return found_.environment; }  // what the program's writer said it is

  // The address of a task, by default of the one that this kind of resolver takes for the master, behind a protocol:
  // "grpc://host:port". Throws: invalid_argument for a task that the cluster does not have.
  std::string master(const std::optional<Task>& task = {}, std::string_view rpc_layer = {}) const;

  // A resolver is read alike where it is held as a value and as a pointer: resolver->task().
  const ClusterResolver* operator->() const { return this; }

 protected:
  struct Found {
    ClusterSpec spec = {};
    std::optional<std::string> task_type = {};
    std::optional<int> task_id = {};
    std::string rpc_layer = {};
    std::string environment = {};
    std::string url_layer = rpc_layer;              // the protocol of addresses that master() gives
    std::optional<std::string> master = {};         // in place of this process's own address
    std::optional<std::string> master_of_all = {};  // in place of every address
  };
  explicit ClusterResolver(Found found) : found_(std::move(found)) {}

 private:
  Found found_;
};

// "grpc://host:port", or the address alone where either is empty.
std::string master_url(std::string_view rpc_layer, std::string_view address);

}  // namespace tutti::cluster
