#include "tutti/distribute/parameter_server_strategy.h"

#include "tutti/cluster/cluster.h"
#include "tutti/cluster/from_environment.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/current_worker.h"
#include "tutti/distribute/servers/served_training.h"

namespace tutti {
namespace {

[[noreturn]] void refuse_cluster(ErrorCode code, const cluster::ClusterSpec& spec, const std::string& why) {
  throw Error(code, str("ParameterServerStrategy: the cluster is ", to_string(spec), "; ", why));
}

// TensorFlow's rules.
void check_cluster(const cluster::ClusterResolver& resolver) {
  const cluster::ClusterSpec& spec = resolver.cluster_spec();
  for (const auto& [job, tasks] : spec.jobs())
    if (job != "chief" && job != "worker" && job != "ps" && job != "evaluator")
      refuse_cluster(ErrorCode::invalid_argument, spec, str("its jobs are chief, worker and ps, not '", job, '\''));
  if (spec.num_tasks("chief") > 1) refuse_cluster(ErrorCode::invalid_argument, spec, "there is one chief");
  if (spec.num_tasks("worker") < 1) refuse_cluster(ErrorCode::invalid_argument, spec, "there must be a worker");
  if (spec.num_tasks("ps") < 1)
    refuse_cluster(ErrorCode::invalid_argument, spec, "there must be a ps to keep variables");
  if (resolver.task_type() == "evaluator")
    refuse_cluster(ErrorCode::invalid_argument, spec,
                   "an evaluator has no part in it; look at cluster::from_environment().task() before");
}

// Whose tasks meet by what their launcher says.
void require_launched(const cluster::ClusterResolver& resolver) {
  const auto launched = cluster::from_environment();
  if (launched.cluster_spec() == resolver.cluster_spec() && launched.task() == resolver.task()) return;
  refuse_cluster(ErrorCode::unimplemented, resolver.cluster_spec(),
                 "that is the resolver's, and tasks meet by what `tutti launch` or TF_CONFIG says, which is something "
                 "else here");
}

void require_cpus(const DeviceList& list) {
  for (const Device& device : list.devices())
    if (device.type != DeviceType::cpu)
      throw Error(
          ErrorCode::unimplemented,
          str("ParameterServerStrategy: workers of a cluster compute on CPUs, not on ", to_string(device), ", yet"));
}

// Null without a cluster.
std::shared_ptr<servers::ServedTraining> join_training(const ParameterServerStrategyOptions& options) {
  if (options.workers < 1)
    throw Error(ErrorCode::invalid_argument,
                str("ParameterServerStrategy: workers is ", options.workers, "; there must be one"));
  if (options.largest_copy_bytes && *options.largest_copy_bytes < 0)
    throw Error(ErrorCode::invalid_argument, str("ParameterServerStrategy: largest_copy_bytes is ",
                                                 *options.largest_copy_bytes, "; it must not be negative"));
  const auto resolver = options.cluster_resolver ? *options.cluster_resolver : cluster::from_environment();
  const cluster::ClusterSpec& spec = resolver.cluster_spec();
  if (spec.is_empty()) return nullptr;
  check_cluster(resolver);
  if (!spec.has("chief")) refuse_cluster(ErrorCode::invalid_argument, spec, "there must be a chief to coordinate");
  if (options.workers != 1)
    refuse_cluster(ErrorCode::invalid_argument, spec,
                   str("it says how many workers there are, and so do the options: ", options.workers));
  require_cpus(options.devices);
  if (options.cluster_resolver) require_launched(resolver);
  static std::atomic<bool> has_joined{false};
  if (has_joined.exchange(true))
    throw Error(ErrorCode::failed_precondition,
                "ParameterServerStrategy: this process has joined its cluster by another one; a program makes one");
  auto cluster = cluster::Cluster::join({.connect_timeout = options.connect_timeout});
  return std::make_shared<servers::ServedTraining>(
      std::move(cluster),
      servers::TaskLinksOptions{
          .connect_timeout = options.connect_timeout,
          .silence = options.lost_after,
          .carriage = options.shares_memory ? rpc::Carriage::shared_memory : rpc::Carriage::sockets},
      options.variable_partitioner, options.largest_copy_bytes);
}

Device home_of(const DeviceList& list) {
  return list.devices().size() == 1 ? list.devices()[0] : Device(DeviceType::cpu, 0);
}

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(const ParameterServerStrategyOptions& options)
    : ParameterServerStrategy(options, join_training(options)) {}

ParameterServerStrategy::ParameterServerStrategy(const ParameterServerStrategyOptions& options,
                                                 std::shared_ptr<servers::ServedTraining> training)
    : LocalStrategy("ParameterServerStrategy", options.devices, {.home = home_of(options.devices)},
                    JoinedProcesses{.new_variables = training}),
      training_(std::move(training)),
      partitioner_(options.variable_partitioner),
      num_workers_(training_ ? training_->links().num_workers() : options.workers) {}

ParameterServerStrategy::~ParameterServerStrategy() = default;

bool ParameterServerStrategy::is_coordinator() const {
  return !training_ || training_->links().role() == servers::Role::coordinator;
}

std::shared_ptr<ServedUpdates> ParameterServerStrategy::served_updates() const { return training_; }

ShardedVariable ParameterServerStrategy::shards(const Tensor& variable) const {
  return ShardedVariable::cut(variable, shard_rows(partitioner_, variable.sizes(), variable.scalar_type()));
}

int ParameterServerStrategy::worker_of_pipelines() const {
  if (num_workers_ == 1) return 0;
  if (WorkerGuard::current() < 0)
    throw Error(ErrorCode::failed_precondition,
                str("ParameterServerStrategy: each of the ", num_workers_,
                    " workers has an input pipeline of its own; make it in create_per_worker_dataset"));
  return WorkerGuard::current();
}

}  // namespace tutti
