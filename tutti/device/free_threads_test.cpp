#include "tutti/device/free_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using std::chrono::milliseconds;

// Sets the number of LibTorch's threads back.
class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST(FreeThreads, AreNeverMoreThanTheProgramAskedFor) {
  const Threads one(1);
  FreeThreads threads(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(5));
  threads.look();
  EXPECT_EQ(at::get_num_threads(), 1);
}

TEST(FreeThreads, AreAsManyAsBeforeInTheEnd) {
  const Threads three(3);
  {
    FreeThreads threads(milliseconds(1));
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
      threads.look();
      EXPECT_GE(at::get_num_threads(), 1);
      EXPECT_LE(at::get_num_threads(), 3);
    }
  }
  EXPECT_EQ(at::get_num_threads(), 3);
}

TEST(FreeThreads, LeaveTheProgramTheLastWord) {
  const Threads three(3);
  {
    FreeThreads threads(milliseconds(1));
    at::set_num_threads(2);
    std::this_thread::sleep_for(milliseconds(5));
    threads.look();
    EXPECT_EQ(at::get_num_threads(), 2);
  }
  EXPECT_EQ(at::get_num_threads(), 2);
}

// What this process uses itself counts as free, so that it does not make way for its own threads.
TEST(FreeThreads, CountTheProcesssOwnUseAsFree) {
  using namespace tune_threads_internal;
  const Usage before{.all = ProcessorTimes{.idle = 0, .all = 0}, .own_seconds = 0};
  const Usage busy{.all = ProcessorTimes{.idle = 0, .all = 400}, .own_seconds = 2};
  EXPECT_EQ(free_processors(before, busy, std::chrono::duration<double>(1)),
            std::min(2, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace tutti
