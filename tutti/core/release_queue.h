#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti {

// What other threads gave to one thread to release, because nobody may release it beside that one:
// copy-on-write shares, as tutti/tensor/copy_on_write.h says.
class ReleaseQueue {
 public:
  // Of the calling thread, with which it ends.
  static const std::shared_ptr<ReleaseQueue>& of_this_thread();

  void put(std::shared_ptr<void> thing);  // on any thread
  // On the thread that it belongs to. Costs a load where there is nothing.
  void release() {
    if (any_.load(std::memory_order_acquire)) release_all();
  }

 private:
  void release_all();

  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> things_;  // guarded by mutex_
};

}  // namespace tutti
