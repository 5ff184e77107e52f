#include "tutti/cluster/message_bridge.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "tutti/cluster/control_message.h"

namespace tutti::cluster {

MessageBridge::MessageBridge(FileDescriptor socket, std::unique_ptr<rpc::Stream> stream)
    : socket_(std::move(socket)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), stream_(std::move(stream)) {
  stream_->on_event([bell = bell_.number()] { eventfd_write(bell, 1); });
  thread_ = std::thread([this] { run(); });
}

MessageBridge::~MessageBridge() {
  is_asked_to_end_ = true;
  eventfd_write(bell_.number(), 1);
  thread_.join();
}

void MessageBridge::run() {
  std::vector<uint8_t> buffer(kMaxControlBytes + 1);
  while (true) {
    pollfd files[2] = {{.fd = bell_.number(), .events = POLLIN, .revents = 0},
                       {.fd = socket_.number(), .events = POLLIN, .revents = 0}};
    poll(files, 2, 1000);
    eventfd_t count = 0;
    eventfd_read(bell_.number(), &count);
    if (!pass_on()) break;
    const ssize_t size = recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0)
      stream_->send({std::vector<uint8_t>(buffer.begin(), buffer.begin() + size)});
    else if (size == 0 || (errno != EAGAIN && errno != EINTR) || is_asked_to_end_)
      break;
  }
  stream_->close(std::chrono::seconds(1));
  socket_.reset();
  has_ended_ = true;
}

// What has come from the other process. Returns false when nothing more will, or nobody reads it here.
bool MessageBridge::pass_on() {
  while (auto message = stream_->take()) {
    if (message->size() > kMaxControlBytes) return false;
    const std::vector<uint8_t> bytes = message->bytes(kMaxControlBytes);
    if (::send(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return false;
  }
  return !stream_->end();
}

}  // namespace tutti::cluster
