#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/cluster/cluster.h"
#include "tutti/distribute/servers/link.h"

namespace tutti::servers {

// What the tasks of a training with parameter servers are.
enum class Role { coordinator, worker, server };

struct TaskLinksOptions {
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(600);  // until all tasks have come
  std::chrono::milliseconds silence = std::chrono::seconds(30);           // after which a task is lost
  rpc::Carriage carriage = rpc::Carriage::shared_memory;
};

// This task's links to the others: coordinator, workers and servers are each linked to those of other roles. A thread
// says now and then to all of them that this task is alive.
class TaskLinks {
 public:
  // Returns when all are linked; every task calls it. Throws: as Cluster::connect.
  TaskLinks(std::shared_ptr<cluster::Cluster> cluster, const TaskLinksOptions& options);
  ~TaskLinks();  // waits until what was sent has come, for some seconds
  TaskLinks(const TaskLinks&) = delete;
  TaskLinks& operator=(const TaskLinks&) = delete;

  Role role() const { return role_; }
  int position() const { return position_; }  // among the tasks of its role
  int num_workers() const { return num_workers_; }
  int num_servers() const { return num_servers_; }
  // By position. Empty for tasks of the own role.
  const std::vector<std::unique_ptr<Link>>& coordinators() const { return coordinators_; }
  const std::vector<std::unique_ptr<Link>>& workers() const { return workers_; }
  const std::vector<std::unique_ptr<Link>>& servers() const { return servers_; }
  const TaskLinksOptions& options() const { return options_; }

  // Not in a worker: whether that one has come again, in another process or with another connection, which its link is
  // then. For the thread that receives from it.
  bool renew_worker(int position);
  // Connect again to the coordinator, or in a worker to a server. Throw: what went wrong. For the thread that receives
  // from it.
  void renew_coordinator();
  void renew_server(int position);
  // Not in a server: another connection, which its link is not yet. Throws: likewise.
  std::unique_ptr<rpc::Stream> connect_to_server(int position);

 private:
  void link_to(const char* job, std::vector<std::unique_ptr<Link>>& links);
  std::unique_ptr<rpc::Stream> connect(const cluster::Task& peer, std::chrono::milliseconds timeout);
  void say_alive();

  const std::shared_ptr<cluster::Cluster> cluster_;
  const TaskLinksOptions options_;
  Role role_;
  int position_, num_workers_, num_servers_;
  std::vector<std::unique_ptr<Link>> coordinators_, workers_, servers_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ends_ = false;
  std::thread alive_;
};

}  // namespace tutti::servers
