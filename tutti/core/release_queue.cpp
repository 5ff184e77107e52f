#include "tutti/core/release_queue.h"

#include <utility>

namespace tutti {

const std::shared_ptr<ReleaseQueue>& ReleaseQueue::of_this_thread() {
  thread_local const auto queue = std::make_shared<ReleaseQueue>();
  return queue;
}

void ReleaseQueue::put(std::shared_ptr<void> thing) {
  const std::scoped_lock lock(mutex_);
  things_.push_back(std::move(thing));
  any_.store(true, std::memory_order_release);
}

void ReleaseQueue::release_all() {
  std::vector<std::shared_ptr<void>> things;
  const std::scoped_lock lock(mutex_);
  std::swap(things, things_);
  any_.store(false, std::memory_order_release);
}

}  // namespace tutti
