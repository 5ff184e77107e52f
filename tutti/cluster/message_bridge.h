#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "tutti/cluster/rpc/stream.h"
#include "tutti/core/file_descriptor.h"

namespace tutti::cluster {

// Carries whole messages between a socket of this process (as make_control_sockets() gives them) and a stream to
// another one, both ways, until one of them ends; then the other ends too.
class MessageBridge {
 public:
  MessageBridge(FileDescriptor socket, std::unique_ptr<rpc::Stream> stream);
  ~MessageBridge();  // what was written to the socket before still goes out, for a second
  MessageBridge(const MessageBridge&) = delete;
  MessageBridge& operator=(const MessageBridge&) = delete;

  bool has_ended() const { return has_ended_; }

 private:
  void run();
  bool pass_on();

  FileDescriptor socket_, bell_;
  std::unique_ptr<rpc::Stream> stream_;
  std::atomic<bool> has_ended_ = false, is_asked_to_end_ = false;
  std::thread thread_;
};

}  // namespace tutti::cluster
