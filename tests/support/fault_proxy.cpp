#include "tests/support/fault_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

bool wait_for_bytes(int socket) {
  pollfd file{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&file, 1, 50) > 0;
}

}  // namespace

FaultProxy::FaultProxy(const std::string& path, const std::string& target, Fault forward, Fault back)
    : target_(target), forward_(forward), back_(back), listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = socket_address(path);
  unlink(path.c_str());
  if (bind(listener_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_.number(), 64) != 0)
    std::abort();
  thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
  ends_ = true;
  thread_.join();
  for (std::thread& each : threads_) each.join();
}

void FaultProxy::run() {
  while (!ends_) {
    if (!wait_for_bytes(listener_.number())) continue;
    FileDescriptor near(accept(listener_.number(), nullptr, nullptr)),
        far(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = socket_address(target_);
    if (connect(far.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
    const int one = near.number(), other = far.number();
    sockets_.push_back(std::move(near));
    sockets_.push_back(std::move(far));
    threads_.emplace_back([=, this] { carry(one, other, forward_); });
    threads_.emplace_back([=, this] { carry(other, one, back_); });
  }
}

void FaultProxy::carry(int from, int to, Fault fault) {
  std::vector<char> bytes(64 << 10);
  int64_t passed = 0;
  while (!ends_) {
    if (!wait_for_bytes(from)) continue;
    if (passed >= fault.stall_after) {  // the sender's buffers fill
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    const int64_t room =
        std::min({static_cast<int64_t>(bytes.size()), fault.cut_after - passed, fault.stall_after - passed});
    const ssize_t count = room > 0 ? recv(from, bytes.data(), static_cast<size_t>(room), MSG_DONTWAIT) : 0;
    if (count <= 0) break;
    if (fault.flip_at >= passed && fault.flip_at < passed + count)
      bytes[static_cast<size_t>(fault.flip_at - passed)] ^= 4;
    if (fault.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(fault.delay_ms));
    for (ssize_t sent = 0; sent < count && !ends_;) {
      const ssize_t part =
          send(to, bytes.data() + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (part > 0) sent += part;
      if (part < 0 && errno != EAGAIN) break;
      if (part < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    passed += count;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace tutti
