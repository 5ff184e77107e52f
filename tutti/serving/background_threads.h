#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::serving {

// A few threads for what would hold up the thread that brings it. Any thread may bring it.
class BackgroundThreads {
 public:
  explicit BackgroundThreads(int count);
  // end().
  ~BackgroundThreads();
  BackgroundThreads(const BackgroundThreads&) = delete;
  BackgroundThreads& operator=(const BackgroundThreads&) = delete;

  void run(std::function<void()> work);
  // What waits is done; what is brought from now on is done by who brings it. Not to be called by what is done here.
  void end();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::serving
