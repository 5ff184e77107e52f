#include "tutti/function/replay_memory.h"

#include <gtest/gtest.h>

#include <utility>

namespace tutti {
namespace {

TEST(ReplayMemory, HandsOutOneBlockAgain) {
  ReplayMemory memory;
  auto block = memory.take(100);
  const void* const first = block.data.get();
  memory.give_back(std::move(block));
  EXPECT_EQ(memory.take(40).data.get(), first);
}

TEST(ReplayMemory, GrowsToTheLargest) {
  ReplayMemory memory;
  memory.give_back(memory.take(100));
  auto larger = memory.take(5000);
  EXPECT_GE(larger.bytes, 5000);
  memory.give_back(std::move(larger));
  EXPECT_GE(memory.take(100).bytes, 5000);
}

TEST(ReplayMemory, GivesThoseWhoRunAtOnceBlocksOfTheirOwn) {
  ReplayMemory memory;
  const auto one = memory.take(100), other = memory.take(100);
  EXPECT_NE(one.data.get(), other.data.get());
}

}  // namespace
}  // namespace tutti
