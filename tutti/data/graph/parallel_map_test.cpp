#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

using namespace std::chrono_literals;

TEST(ParallelMap, KeepsTheOrder) {
  const Watchdog watchdog(60s);
  const auto square = [](const Tensor& x) { return x * x; };
  for (const int threads : {1, 2, 5})
    EXPECT_EQ(numbers(range(100).map(square, {.num_parallel_calls = threads})), numbers(range(100).map(square)));
  EXPECT_EQ(range(100).map(square, {.num_parallel_calls = 2}).cardinality(), 100);
  EXPECT_EQ(numbers(range(0).map(square, {.num_parallel_calls = 3})), Numbers{});
}

TEST(ParallelMap, ComputesSideBySide) {
  const Watchdog watchdog(60s);
  std::latch all(3);  // passed only if three calls run at once
  const auto meet = [&](const Tensor& x) {
    all.arrive_and_wait();
    return x;
  };
  EXPECT_EQ(numbers(range(3).map(meet, {.num_parallel_calls = 3})).size(), 3U);
}

TEST(ParallelMap, GivesResultsAsTheyBecomeReadyWhenAllowed) {
  const Watchdog watchdog(60s);
  std::latch others(3);
  const auto first_comes_last = [&](const Tensor& x) {
    if (x.item<int64_t>() == 0) others.wait();
    return x;
  };
  auto iterator = range(4).map(first_comes_last, {.num_parallel_calls = 2, .deterministic = false}).begin();
  for (int i = 1; i < 4; ++i, ++iterator) {
    EXPECT_EQ(iterator->item<int64_t>(), i);
    others.count_down();
  }
  EXPECT_EQ(iterator->item<int64_t>(), 0);
}

TEST(ParallelMap, WorksAheadByTwoResultsForEachThread) {
  const Watchdog watchdog(60s);
  std::atomic<int> calls = 0;
  const auto count = [&](const Tensor& x) {
    ++calls;
    return x;
  };
  auto iterator = range(100).map(count, {.num_parallel_calls = 2}).begin();
  EXPECT_EQ(iterator->item<int64_t>(), 0);
  while (calls < 4) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(calls, 5);  // four kept, and the one that was given, whose place is not filled before half of all are free
}

TEST(ParallelMap, GivesWhatCameBeforeAnErrorAndThenTheError) {
  const Watchdog watchdog(60s);
  for (int round = 0; round < 20; ++round) {
    const auto dataset = range(50).map(
        [](const Tensor& x) {
          if (x.item<int64_t>() == 7) throw std::runtime_error("seven");
          return x;
        },
        {.num_parallel_calls = 3});
    graph::Pass pass(dataset.node());
    graph::Element element;
    for (int i = 0; i < 7; ++i) ASSERT_TRUE(pass.next(element));
    EXPECT_THROW(pass.next(element), std::runtime_error);
  }
}

TEST(ParallelMap, PassesOnAnErrorOfItsInput) {
  const Watchdog watchdog(60s);
  const auto ragged = from_tensors(at::zeros({2})).concatenate(from_tensors(at::zeros({3}))).batch(2);
  const auto dataset = ragged.map([](const Tensor& x) { return x; }, {.num_parallel_calls = 2});
  EXPECT_THAT(error_of([&] { *dataset.begin(); }), ::testing::HasSubstr("invalid_argument: batch"));
}

TEST(ParallelMap, IsDestroyedInTheMiddle) {
  const Watchdog watchdog(60s);
  const auto same = [](const Tensor& x) { return x; };
  for (int round = 0; round < 50; ++round) {
    auto iterator = range(1000).repeat().prefetch(2).map(same, {.num_parallel_calls = 3}).prefetch(2).begin();
    for (int i = 0; i < round % 5; ++i) ++iterator;
  }
}

TEST(ParallelMap, TakesAThreadForEachProcessorWhereItIsAskedTo) {
  const Watchdog watchdog(60s);
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::latch all(processors);  // passed only if as many calls run at once
  const auto meet = [&](const Tensor& x) {
    all.arrive_and_wait();
    return x;
  };
  EXPECT_EQ(numbers(range(processors).map(meet, {.num_parallel_calls = kAutotune})), numbers(range(processors)));
  EXPECT_EQ(numbers(range(9).batch(2, {.num_parallel_calls = kAutotune})), numbers(range(9).batch(2)));
  const auto twice = [](const Tensor& x) { return from_tensors(x).repeat(2); };
  EXPECT_EQ(numbers(range(9).interleave(twice, {.num_parallel_calls = kAutotune})),
            numbers(range(9).interleave(twice)));
}

TEST(ParallelMap, RefusesANegativeNumberOfCalls) {
  EXPECT_THAT(error_of([] { range(2).map([](const Tensor& x) { return x; }, {.num_parallel_calls = -2}); }),
              ::testing::HasSubstr("num_parallel_calls -2"));
}

}  // namespace
}  // namespace tutti::data
