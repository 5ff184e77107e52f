#include "tutti/checkpoint/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::checkpoint {
namespace {

TEST(ForEachItem, CallsEachItemOnce) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> calls(100);
    for_each_item(calls.size(), threads, [&](size_t item) { ++calls[item]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
  for_each_item(0, 3, [](size_t) { FAIL(); });
}

TEST(ForEachItem, GoesInOrderOnOneThread) {
  std::vector<size_t> items;
  for_each_item(4, 1, [&](size_t item) { items.push_back(item); });
  EXPECT_EQ(items, (std::vector<size_t>{0, 1, 2, 3}));
}

TEST(ForEachItem, RethrowsTheLowestItemsErrorAndLeavesLaterOnesOut) {
  for (const int threads : {1, 4}) {
    std::atomic<int> calls = 0;
    try {
      for_each_item(100'000, threads, [&](size_t item) {
        ++calls;
        if (item >= 3) throw std::runtime_error(std::to_string(item));
      });
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "3");
    }
    EXPECT_LT(calls, 100);
  }
}

}  // namespace
}  // namespace tutti::checkpoint
