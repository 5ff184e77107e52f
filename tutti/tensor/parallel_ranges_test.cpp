#include "tutti/tensor/parallel_ranges.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

class ParallelRanges : public testing::Test {
 protected:
  ~ParallelRanges() override { at::set_num_threads(before_); }

  // What f was called with, in order.
  Ranges ranges(int64_t count, int64_t grain) {
    Ranges all;
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex_);
      all.emplace_back(begin, end);
      threads_.insert(std::this_thread::get_id());
    });
    std::ranges::sort(all);
    return all;
  }

  int before_ = at::get_num_threads();
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

TEST_F(ParallelRanges, MakeUpTheWhole) {
  at::set_num_threads(3);
  for (const int64_t count : {0, 1, 2, 5, 64, 1000, 1001})
    for (const int64_t grain : {1, 2, 7, 1000}) {
      int64_t next = 0;
      for (const auto& [begin, end] : ranges(count, grain)) {
        EXPECT_EQ(begin, next);
        EXPECT_TRUE(end - begin >= grain || end - begin == count);
        next = end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST_F(ParallelRanges, RunOnTheThreadsOfAnOp) {
  at::set_num_threads(3);
  EXPECT_EQ(ranges(300, 100).size(), 3);
  EXPECT_EQ(threads_.size(), 3);
}

TEST_F(ParallelRanges, OfLessThanTwoGrainsAreTheCallers) {
  at::set_num_threads(3);
  EXPECT_EQ(ranges(199, 100), (Ranges{{0, 199}}));
  EXPECT_EQ(threads_, std::set{std::this_thread::get_id()});
}

TEST_F(ParallelRanges, RethrowWhatAnyOfThemThrows) {
  at::set_num_threads(2);
  EXPECT_THROW(parallel_ranges(2, 1,
                               [](int64_t begin, int64_t) {
                                 if (begin == 1) throw std::range_error("here");
                               }),
               std::range_error);
}

}  // namespace
}  // namespace tutti
