#include "tutti/cluster/leader_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

constexpr int kTickMilliseconds = 50;

FileDescriptor make_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC));
  if (!event) throw Error(ErrorCode::resource_exhausted, str("eventfd: ", std::strerror(errno)));
  return event;
}

}  // namespace

ControlSockets make_control_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::resource_exhausted, str("socketpair: ", std::strerror(errno)));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

LeaderServer::LeaderServer(std::vector<Task> tasks, std::vector<FileDescriptor> sockets, const LeaderOptions& options)
    : leader_(std::move(tasks), options, Leader::Clock::now()),
      sockets_(std::move(sockets)),
      end_(make_event()),
      thread_([this] { run(); }) {}

LeaderServer::~LeaderServer() {
  eventfd_write(end_.number(), 1);
  thread_.join();
}

void LeaderServer::lose(int member, const std::string& how) {
  const std::lock_guard lock(mutex_);
  send(leader_.lose(member, how));
}

void LeaderServer::replace(int member, FileDescriptor socket) {
  const std::lock_guard lock(mutex_);
  leader_.expect(member, Leader::Clock::now());
  sockets_[static_cast<size_t>(member)] = std::move(socket);
}

void LeaderServer::finish(int member) {
  const std::lock_guard lock(mutex_);
  send(leader_.finish(member));
}

bool LeaderServer::is_given_up(int member) {
  const std::lock_guard lock(mutex_);
  return leader_.is_given_up(member);
}

bool LeaderServer::is_lost(int member) {
  const std::lock_guard lock(mutex_);
  return leader_.is_lost(member);
}

bool LeaderServer::takes_part(int member) {
  const std::lock_guard lock(mutex_);
  return leader_.takes_part(member);
}

void LeaderServer::run() {
  std::vector<uint8_t> buffer(kMaxControlBytes + 1);
  while (true) {
    std::vector<pollfd> files{{.fd = end_.number(), .events = POLLIN, .revents = 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const FileDescriptor& socket : sockets_)
        files.push_back({.fd = socket.number(), .events = POLLIN, .revents = 0});
    }
    poll(files.data(), files.size(), kTickMilliseconds);
    if (files[0].revents != 0) return;
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < sockets_.size(); ++i)
      if (files[i + 1].revents != 0) read(static_cast<int>(i), buffer);
    send(leader_.tick(Leader::Clock::now()));
  }
}

// One message. What is none ends the connection: nothing that comes after it can be believed.
void LeaderServer::read(int member, std::span<uint8_t> buffer) {
  FileDescriptor& socket = sockets_[static_cast<size_t>(member)];
  if (!socket) return;  // it was closed since
  const ssize_t count = recv(socket.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    socket.reset();
    return send(leader_.close(member, Leader::Clock::now()));
  }
  try {
    const ControlMessage message = decode_control_message(buffer.first(static_cast<size_t>(count)));
    send(leader_.receive(member, message, Leader::Clock::now()));
  } catch (const Error& error) {
    socket.reset();
    send(leader_.lose(member, str("has sent what is no message: ", error.what())));
  }
}

// A member whose socket is full does not read: it is lost, and the others hear of that.
void LeaderServer::send(Leader::Answers answers) {
  for (size_t i = 0; i < answers.size(); ++i) {  // grows while it is sent
    const int to = answers[i].member;
    FileDescriptor& socket = sockets_[static_cast<size_t>(to)];
    if (!socket) continue;
    const std::vector<uint8_t> bytes = encode(answers[i].message);
    if (::send(socket.number(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EPIPE)
      continue;
    socket.reset();
    for (Leader::Answer& answer : leader_.lose(to, "does not read what it is sent"))
      answers.push_back(std::move(answer));
  }
}

}  // namespace tutti::cluster
