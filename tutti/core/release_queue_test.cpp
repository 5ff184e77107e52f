#include "tutti/core/release_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti {
namespace {

TEST(ReleaseQueue, ReleasesOnItsOwnThread) {
  std::thread::id released_on;
  const auto queue = ReleaseQueue::of_this_thread();
  std::thread([&] {
    queue->put(std::shared_ptr<void>(nullptr, [&](void*) { released_on = std::this_thread::get_id(); }));
    ReleaseQueue::of_this_thread()->release();  // another one
  }).join();
  EXPECT_EQ(released_on, std::thread::id());
  queue->release();
  EXPECT_EQ(released_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace tutti
