#include "tutti/serving/background_threads.h"

#include <utility>

namespace tutti::serving {

BackgroundThreads::BackgroundThreads(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
}

BackgroundThreads::~BackgroundThreads() { end(); }

void BackgroundThreads::run(std::function<void()> work) {
  {
    std::unique_lock lock(mutex_);
    if (is_ending_) {
      lock.unlock();
      return work();
    }
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void BackgroundThreads::end() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
}

void BackgroundThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

}  // namespace tutti::serving
