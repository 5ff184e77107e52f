#include "tutti/distribute/servers/task_links.h"

#include <iterator>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::servers {
namespace {

constexpr std::chrono::milliseconds kTimeToLeave(5000);
constexpr int kAliveSigns = 6;  // of a task, in the time after which it is lost

Role role_of(const cluster::Task& task) {
  if (task.type == "chief") return Role::coordinator;
  return task.type == "ps" ? Role::server : Role::worker;
}

int position_of(const cluster::ClusterSpec& spec, const cluster::Task& task) {
  const auto& job = spec.jobs().at(task.type);
  return static_cast<int>(std::distance(job.begin(), job.find(task.index)));
}

cluster::Task task_at(const cluster::ClusterSpec& spec, const char* job, int position) {
  return {job, std::next(spec.jobs().at(job).begin(), position)->first};
}

}  // namespace

TaskLinks::TaskLinks(std::shared_ptr<cluster::Cluster> cluster, const TaskLinksOptions& options)
    : cluster_(std::move(cluster)),
      options_(options),
      role_(role_of(cluster_->task())),
      position_(position_of(cluster_->spec(), cluster_->task())),
      num_workers_(cluster_->spec().num_tasks("worker")),
      num_servers_(cluster_->spec().num_tasks("ps")) {
  if (role_ != Role::coordinator) link_to("chief", coordinators_);
  if (role_ != Role::worker) link_to("worker", workers_);
  if (role_ != Role::server) link_to("ps", servers_);
  alive_ = std::thread([this] { say_alive(); });
}

TaskLinks::~TaskLinks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  alive_.join();
  const auto until = Link::Clock::now() + kTimeToLeave;
  for (const auto* links : {&coordinators_, &workers_, &servers_})
    for (const auto& link : *links)
      link->close(std::chrono::ceil<std::chrono::milliseconds>(
          std::max<Link::Clock::duration>(until - Link::Clock::now(), Link::Clock::duration::zero())));
}

void TaskLinks::link_to(const char* job, std::vector<std::unique_ptr<Link>>& links) {
  for (const auto& [index, address] : cluster_->spec().jobs().at(job)) {
    const cluster::Task peer{job, index};
    links.push_back(std::make_unique<Link>(peer, connect(peer, options_.connect_timeout), options_.silence));
  }
}

std::unique_ptr<rpc::Stream> TaskLinks::connect(const cluster::Task& peer, std::chrono::milliseconds timeout) {
  return cluster_->connect(peer, "parameter servers", timeout, options_.carriage);
}

bool TaskLinks::renew_worker(int position) {
  std::unique_ptr<rpc::Stream> stream;
  try {
    stream = connect(task_at(cluster_->spec(), "worker", position), std::chrono::milliseconds(0));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline_exceeded) return false;  // nobody waits at the door
    throw;
  }
  workers_[static_cast<size_t>(position)]->renew(std::move(stream));
  return true;
}

void TaskLinks::renew_coordinator() {
  coordinators_[0]->renew(connect(task_at(cluster_->spec(), "chief", 0), options_.silence));
}

void TaskLinks::renew_server(int position) {
  servers_[static_cast<size_t>(position)]->renew(connect_to_server(position));
}

std::unique_ptr<rpc::Stream> TaskLinks::connect_to_server(int position) {
  return connect(task_at(cluster_->spec(), "ps", position), options_.silence / kAliveSigns);
}

void TaskLinks::say_alive() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, options_.silence / kAliveSigns, [&] { return ends_; }))
    for (const auto* links : {&coordinators_, &workers_, &servers_})
      for (const auto& link : *links) link->say_alive();
}

}  // namespace tutti::servers
