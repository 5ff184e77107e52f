#include "tutti/collectives/communications.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti {
namespace {

TEST(Communications, AreCountedByKind) {
  reset_communications();
  const CommunicationKind sum{.op = "all_reduce", .mesh_dimension = "replica", .cause = "apply_gradients"};
  CommunicationKind implied = sum;
  implied.implied = true;
  communication_counter(sum).record(100);
  communication_counter(sum).record(28);
  communication_counter(implied).record(4);
  communication_counter(
      {.op = "all_gather", .mesh_dimension = "model", .cause = "sort", .implied = true, .free = true});
  const std::vector<Communication> all = communications();
  ASSERT_EQ(all.size(), 2U) << "a kind that never occurred is not listed";
  EXPECT_EQ(all[0].op, "all_reduce");
  EXPECT_EQ(all[0].mesh_dimension, "replica");
  EXPECT_EQ(all[0].cause, "apply_gradients");
  EXPECT_FALSE(all[0].implied);
  EXPECT_EQ(all[0].count, 2);
  EXPECT_EQ(all[0].bytes, 128);
  EXPECT_TRUE(all[1].implied);
  EXPECT_EQ(all[1].bytes, 4);
}

TEST(Communications, CountersSurviveAReset) {
  CommunicationCounter& counter = communication_counter({.op = "broadcast"});
  counter.record(1);
  reset_communications();
  EXPECT_TRUE(communications().empty());
  EXPECT_EQ(&communication_counter({.op = "broadcast"}), &counter);
  counter.record(7);
  ASSERT_EQ(communications().size(), 1U);
  EXPECT_EQ(communications()[0].bytes, 7);
}

TEST(Communications, ThreadsLoseNoCall) {
  reset_communications();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([] {
        CommunicationCounter& counter = communication_counter({.op = "all_reduce"});
        for (int call = 0; call < 10'000; ++call) counter.record(3);
      });
  }
  EXPECT_EQ(communications()[0].count, 40'000);
  EXPECT_EQ(communications()[0].bytes, 120'000);
}

}  // namespace
}  // namespace tutti
