#pragma once

#include <mutex>
#include <thread>
#include <vector>

#include "tutti/cluster/leader.h"
#include "tutti/core/file_descriptor.h"

namespace tutti::cluster {

// A socket and its other end, for whole messages between two processes of one host.
struct ControlSockets {
  FileDescriptor leader, member;
};
// Throws: resource_exhausted.
ControlSockets make_control_sockets();

// Runs a leader on a thread of its own, over a socket for each member. Until it is destroyed: the members' next
// requests are then unavailable.
class LeaderServer {
 public:
  LeaderServer(std::vector<Task> tasks, std::vector<FileDescriptor> sockets, const LeaderOptions& options = {});
  ~LeaderServer();
  LeaderServer(const LeaderServer&) = delete;
  LeaderServer& operator=(const LeaderServer&) = delete;

  // How a member's process has ended, for whoever knows. Any thread.
  void lose(int member, const std::string& how);
  // As Leader's. Any thread.
  void finish(int member);
  bool is_given_up(int member);
  bool is_lost(int member);
  // A new process in the place of a lost one, at this socket. Any thread.
  void replace(int member, FileDescriptor socket);
  // As Leader::takes_part. Any thread.
  bool takes_part(int member);

 private:
  void run();
  void read(int member, std::span<uint8_t> buffer);
  void send(Leader::Answers answers);

  std::mutex mutex_;
  Leader leader_;
  std::vector<FileDescriptor> sockets_;  // by member; none once it is closed
  FileDescriptor end_;                   // written when the thread is to end
  std::thread thread_;
};

}  // namespace tutti::cluster
