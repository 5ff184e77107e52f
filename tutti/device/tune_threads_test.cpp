#include "tutti/device/tune_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tutti::tune_threads_internal {
namespace {

TEST(TuneThreads, ReadsWhatTheSystemTells) {
  const auto times = parse_processor_times("cpu  100 20 30 700 50 6 4 2 9 9\ncpu0 50 10 15 350 25 3 2 1 0 0\n");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->idle, 750);
  EXPECT_EQ(times->all, 912);
  EXPECT_FALSE(parse_processor_times(""));
  EXPECT_FALSE(parse_processor_times("intr 1 2 3"));
}

TEST(TuneThreads, CountsWhatNobodyElseUses) {
  const ProcessorTimes before{.idle = 1000, .all = 5000};
  const auto free_of_four = [&](int64_t idle, double own) {
    return free_processors(before, {.idle = 1000 + idle, .all = 5400}, own, 4);
  };
  EXPECT_EQ(free_of_four(400, 0), 4);
  EXPECT_EQ(free_of_four(380, 0), 4) << "a little of one";
  EXPECT_EQ(free_of_four(300, 0), 3) << "one is busy";
  EXPECT_EQ(free_of_four(0, 0), 1) << "all are busy";
  EXPECT_EQ(free_of_four(0, 4), 4) << "by this process";
  EXPECT_EQ(free_of_four(100, 1), 2);
  EXPECT_EQ(free_processors(before, before, 0, 4), 4) << "no time has passed";
}

TEST(TuneThreads, GivesThemToLibTorch) {
  const int before = at::get_num_threads();
  const int threads = tune_threads(std::chrono::milliseconds(20));
  EXPECT_GE(threads, 1);
  EXPECT_EQ(at::get_num_threads(), threads);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace tutti::tune_threads_internal
