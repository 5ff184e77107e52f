#include "tutti/collectives/collective_queue.h"

#include <c10/core/StreamGuard.h>

#include <utility>

#include "tutti/device/current_streams.h"

namespace tutti {

CollectiveQueue::CollectiveQueue(std::shared_ptr<Group> group)
    : group_(std::move(group)), thread_([this] { work(); }) {}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::future<void> CollectiveQueue::start(const Collective& call) {
  std::packaged_task<void()> task([this, call, streams = current_streams()] {
    const c10::MultiStreamGuard callers_streams(streams);
    group_->run(call);
  });
  std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(task));
  }
  changed_.notify_one();
  return done;
}

void CollectiveQueue::work() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::packaged_task<void()> task = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace tutti
