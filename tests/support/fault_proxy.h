#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tutti/core/file_descriptor.h"

namespace tutti {

// What becomes of the bytes that go one way through a connection.
struct Fault {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t cut_after = kNever;    // bytes; then both ends see the connection closed
  int64_t stall_after = kNever;  // bytes; nothing comes through any more, and nobody is told
  int64_t flip_at = kNever;      // the byte that arrives with another bit
  int delay_ms = 0;              // of every piece
};

// Stands between processes that meet at Unix sockets: whoever connects to its own path is connected to another one.
// Every byte passes through it.
class FaultProxy {
 public:
  FaultProxy(const std::string& path, const std::string& target, Fault forward, Fault back);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

 private:
  void run();
  void carry(int from, int to, Fault fault);

  const std::string target_;
  const Fault forward_, back_;
  FileDescriptor listener_;
  std::atomic<bool> ends_ = false;
  std::mutex mutex_;
  std::vector<FileDescriptor> sockets_;  // of all connections, until the proxy ends
  std::vector<std::thread> threads_;
  std::thread thread_;
};

}  // namespace tutti
