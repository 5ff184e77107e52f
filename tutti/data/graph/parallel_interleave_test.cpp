#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

using namespace std::chrono_literals;

// x, x + 100, … as many as x mod 5 says.
Dataset<Tensor> numbers_of(const Tensor& x) {
  const auto first = x.item<int64_t>();
  return range(first, first + 100 * (first % 5), 100);
}

TEST(ParallelInterleave, GivesTheOrderOfOneThread) {
  const Watchdog watchdog(60s);
  for (const int64_t cycle : {1, 2, 3, 16})
    for (const int64_t block : {1, 2, 5})
      for (const int threads : {1, 2, 4}) {
        const auto parallel = range(23).interleave(
            numbers_of, {.cycle_length = cycle, .block_length = block, .num_parallel_calls = threads});
        EXPECT_EQ(numbers(parallel), numbers(range(23).interleave(numbers_of, {cycle, block})))
            << cycle << ' ' << block << ' ' << threads;
      }
  EXPECT_EQ(numbers(range(0).interleave(numbers_of, {.num_parallel_calls = 2})), Numbers{});
}

TEST(ParallelInterleave, GivesEveryElementInAnyOrderWhenAllowed) {
  const Watchdog watchdog(60s);
  for (const int64_t cycle : {1, 3}) {
    Numbers all = numbers(range(23).interleave(
        numbers_of, {.cycle_length = cycle, .block_length = 2, .num_parallel_calls = 3, .deterministic = false}));
    Numbers expected = numbers(range(23).flat_map(numbers_of));
    std::ranges::sort(all);
    std::ranges::sort(expected);
    EXPECT_EQ(all, expected);
  }
}

TEST(ParallelInterleave, DoesNotWaitForADatasetThatIsSlowWhenAllowed) {
  const Watchdog watchdog(60s);
  std::latch released(1);
  const auto dataset = range(2).interleave(
      [&](const Tensor& x) {
        return range(3).map([&, slow = x.item<int64_t>() == 0](const Tensor& y) {
          if (slow) released.wait();
          return y;
        });
      },
      {.num_parallel_calls = 2, .deterministic = false});
  auto iterator = dataset.begin();
  for (int i = 0; i < 2; ++i) ++iterator;  // the three of the other one
  released.count_down();
  for (; iterator != std::default_sentinel; ++iterator) {
  }
}

TEST(ParallelInterleave, ReadsDatasetsSideBySide) {
  const Watchdog watchdog(60s);
  std::latch all(3);  // passed only if three datasets are read at once
  const auto meet = [&](const Tensor& x) {
    return from_tensors(x).map([&](const Tensor& y) {
      all.arrive_and_wait();
      return y;
    });
  };
  EXPECT_EQ(numbers(range(3).interleave(meet, {.cycle_length = 1, .num_parallel_calls = 3})), numbers(range(3)));
}

TEST(ParallelInterleave, OpensAsManyAheadAsItHasThreads) {
  const Watchdog watchdog(60s);
  std::atomic<int> opened = 0;
  const auto count = [&](const Tensor& x) {
    ++opened;
    return from_tensors(x).repeat();
  };
  auto iterator = range(100).interleave(count, {.cycle_length = 3, .num_parallel_calls = 2}).begin();
  EXPECT_EQ(iterator->item<int64_t>(), 0);
  while (opened < 5) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(opened, 5);
}

TEST(ParallelInterleave, GivesWhatCameBeforeAnErrorAndThenTheErrorWithItsPlace) {
  const Watchdog watchdog(60s);
  const auto failing = [](const Tensor& x) {
    if (x.item<int64_t>() == 3) throw std::domain_error("three");
    return from_tensors(x);
  };
  for (int round = 0; round < 20; ++round) {
    auto iterator = range(50).interleave(failing, {.num_parallel_calls = 3}).begin();
    ++iterator;
    ++iterator;
    try {
      ++iterator;
      FAIL() << "no error";
    } catch (const std::domain_error& error) {
      EXPECT_STREQ(error.what(), "interleave: element 3: three");
    }
  }
}

TEST(ParallelInterleave, IsDestroyedInTheMiddle) {
  const Watchdog watchdog(60s);
  const auto endless = [](const Tensor& x) { return from_tensors(x).repeat().prefetch(2); };
  for (int round = 0; round < 50; ++round) {
    auto iterator =
        range(1000).repeat().interleave(endless, {.cycle_length = 2, .num_parallel_calls = 2}).prefetch(2).begin();
    for (int i = 0; i < round % 5; ++i) ++iterator;
  }
}

TEST(ParallelInterleave, IsDestroyedThoughNothingComes) {
  const Watchdog watchdog(60s);
  const auto nothing = [](const Tensor&) { return range(0); };
  range(1).repeat().interleave(nothing, {.num_parallel_calls = 2}).prefetch(1).node()->iterate({});
}

TEST(ParallelInterleave, ChecksItsArguments) {
  EXPECT_THAT(error_of([] { range(4).interleave(numbers_of, {.num_parallel_calls = -2}); }),
              ::testing::HasSubstr("num_parallel_calls -2"));
  EXPECT_THAT(error_of([] { range(4).interleave(numbers_of, {.cycle_length = 0, .num_parallel_calls = 1}); }),
              ::testing::HasSubstr("cycle_length 0"));
}

TEST(ParallelInterleave, GoesOnWithFewerThreadsThanItWasSavedWith) {
  const Watchdog watchdog(60s);
  std::atomic<int> opened = 0;
  const auto make = [&](int threads) {
    const auto three = [&](const Tensor& x) {
      ++opened;
      return from_tensors(x).repeat(3);
    };
    return range(11).interleave(three, {.cycle_length = 1, .num_parallel_calls = threads});
  };
  auto iterator = make(6).begin();
  ++iterator;
  while (opened < 7) std::this_thread::yield();
  auto again = make(1).begin();
  again.restore_state(iterator.save_state());
  for (; iterator != std::default_sentinel; ++iterator, ++again)
    ASSERT_EQ(again->item<int64_t>(), iterator->item<int64_t>());
  EXPECT_TRUE(again == std::default_sentinel);
}

TEST(ParallelInterleave, GoesOnWhereItWasSaved) {
  const Watchdog watchdog(60s);
  for (const int64_t cycle : {1, 3})
    expect_resumes(
        range(11).interleave(numbers_of, {.cycle_length = cycle, .block_length = 2, .num_parallel_calls = 2}));
}

}  // namespace
}  // namespace tutti::data
