#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "tutti/collectives/group.h"

namespace tutti {

// Makes a group's calls on a thread of its own, in the order in which they are started, so that the caller goes on
// meanwhile; of a GPU's memory on the stream that is the caller's current one when it starts them. While it lives,
// nobody else makes calls of the group.
class CollectiveQueue {
 public:
  explicit CollectiveQueue(std::shared_ptr<Group> group);
  // Waits for the calls that were started.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // The buffers stay the call's until the future is ready; get() throws what Group::run throws.
  std::future<void> start(const Collective& call);

 private:
  void work();

  const std::shared_ptr<Group> group_;
  std::mutex mutex_;  // guards the two below
  std::deque<std::packaged_task<void()>> calls_;
  bool closed_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace tutti
