#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <thread>

namespace tutti {

// Ends the process with a message if it lives longer than `limit`: a test that could hang fails instead.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit)
      : thread_([limit](std::stop_token stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any().wait_for(lock, stop, limit, [] { return false; });
          if (stop.stop_requested()) return;
          std::fprintf(stderr, "watchdog: the test hangs: not done after %lld s\n",
                       static_cast<long long>(limit.count()));
          std::abort();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace tutti
