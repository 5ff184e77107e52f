#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tutti/cluster/door.h"
#include "tutti/cluster/leader_server.h"
#include "tutti/cluster/message_bridge.h"
#include "tutti/cluster/network_plan.h"

namespace tutti::cluster {

// Leads a cluster whose members come through a door: each of them speaks to a LeaderServer as if it were on this host.
class NetworkLeader {
 public:
  NetworkLeader(const std::vector<Task>& tasks, const LeaderOptions& options = {});
  ~NetworkLeader();  // waits for the members that are here, 10 s at most
  NetworkLeader(const NetworkLeader&) = delete;
  NetworkLeader& operator=(const NetworkLeader&) = delete;

  // The connection of a member that is in this process. Once for each.
  FileDescriptor own_connection(const Task& task);
  // Lets in who comes for the leader, on a thread of its own, until this leader is destroyed.
  void open(Door& door);
  // How a member's process has ended, for whoever knows; the others as LeaderServer's.
  void lose(const Task& task, const std::string& how);
  void finish(const Task& task);
  bool is_given_up(const Task& task);
  bool takes_part(const Task& task);
  // Whether some who came have not left yet.
  bool has_members();
  // Lets nobody in any more; to be called before the door is destroyed.
  void close();
  // Why a task cannot come in, though it has proved itself: it is none of these, or here already. Where the others go
  // on without lost ones, and where there are parameter servers, a worker may come again once it is lost. Any thread.
  std::optional<Error> admit(const PeerHello& hello);

 private:
  void run(Door& door);
  bool may_return(const Task& task) const;
  int place_of(const Task& task) const;
  FileDescriptor& connection_of(const Task& task) { return connections_[static_cast<size_t>(place_of(task))]; }

  const std::vector<Task> tasks_;
  const bool is_elastic_;
  std::vector<FileDescriptor> connections_;  // by task, until it comes
  std::unique_ptr<LeaderServer> server_;
  std::mutex mutex_;
  std::set<std::string> here_;                                        // tasks that have come
  std::vector<std::vector<std::unique_ptr<MessageBridge>>> bridges_;  // by task: the last one is that of its process
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// Refuses those of another cluster, program or attempt than this process's own; `whom` is this process. The first
// program that comes decides where this process runs another one by design, as a launcher does.
class Gatekeeper {
 public:
  explicit Gatekeeper(PeerHello own) : own_(std::move(own)) {}
  std::optional<Error> check(const PeerHello& hello);

 private:
  std::mutex mutex_;
  PeerHello own_;
};

// The greeting of a task, but for the purpose.
PeerHello own_greeting(const ClusterSpec& spec, const Task& task, const Environment& environment);

// Makes the folder of a "unix:/tmp/tutti-…/name" address. Throws: failed_precondition where others may enter it.
void prepare_folder(const std::string& address);

}  // namespace tutti::cluster
