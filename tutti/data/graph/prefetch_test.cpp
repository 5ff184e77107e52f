#include <gmock/gmock.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

using namespace std::chrono_literals;

Dataset<Tensor> slow(int64_t n, std::chrono::milliseconds time, std::atomic<int>& calls) {
  return range(n).map([&calls, time](const Tensor& x) {
    ++calls;
    std::this_thread::sleep_for(time);
    return x;
  });
}

TEST(Prefetch, GivesTheSameElementsInOrder) {
  EXPECT_EQ(numbers(range(100).prefetch(3)), numbers(range(100)));
  EXPECT_EQ(numbers(range(100).prefetch(1).batch(7).prefetch(200)), numbers(range(100).batch(7)));
  EXPECT_EQ(range(100).prefetch(3).cardinality(), 100);
  EXPECT_THAT(error_of([] { range(5).prefetch(0); }), ::testing::HasSubstr("prefetch: buffer_size 0"));
}

TEST(Prefetch, WorksAheadByItsBufferAndNoMore) {
  std::atomic<int> calls = 0;
  const auto dataset = slow(100, 0ms, calls).prefetch(4);
  auto iterator = dataset.begin();
  EXPECT_EQ(iterator->item<int64_t>(), 0);
  while (calls < 5) std::this_thread::yield();  // four kept, one that finds no room
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(calls,
            6);  // and the one that was given, if its place was filled again: not before half the buffer is empty
  for (int i = 0; i < 3; ++i) ++iterator;
  while (calls < 7) std::this_thread::yield();
}

TEST(Prefetch, SleepsWhileItWaits) {
  std::atomic<int> calls = 0;
  const auto dataset = slow(100, 0ms, calls).prefetch(1);
  auto iterator = dataset.begin();
  EXPECT_EQ(iterator->item<int64_t>(), 0);
  while (calls < 3) std::this_thread::yield();
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(100ms);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  EXPECT_LT((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1'000'000, 50);
}

TEST(Prefetch, IsDestroyedInTheMiddle) {
  for (int round = 0; round < 50; ++round) {
    auto iterator = range(1000).repeat().prefetch(2).batch(3).prefetch(2).begin();
    for (int i = 0; i < round % 5; ++i) ++iterator;
  }
}

TEST(Prefetch, DestructionWaitsForOneElementNotForABuffer) {
  std::atomic<int> calls = 0;
  const auto dataset = range(1).concatenate(slow(1'000'000, 1ms, calls).shuffle(1'000'000).prefetch(1)).prefetch(1);
  {
    auto iterator = dataset.begin();
    EXPECT_EQ(iterator->item<int64_t>(), 0);
    while (calls < 5) std::this_thread::yield();
  }
  EXPECT_LT(calls, 100'000);
}

TEST(Prefetch, KeepsToItsBufferWhenItWasSavedOrRestoredFull) {
  const Watchdog watchdog(60s);
  std::atomic<int> calls = 0;
  auto iterator = slow(1'000'000, 0ms, calls).prefetch(4).begin();
  EXPECT_EQ(iterator->item<int64_t>(), 0);
  while (calls < 6) std::this_thread::yield();
  const Tensor state = iterator.save_state();  // with one element more than the buffer has room for
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(calls, 8);
  iterator = slow(1'000'000, 0ms, calls).prefetch(1).begin();
  iterator.restore_state(state);
  calls = 0;
  ++iterator;  // begins the thread, while more is ready than the buffer has room for
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(calls, 2);
  for (int i = 1; i < 20; ++i, ++iterator) EXPECT_EQ(iterator->item<int64_t>(), i);
}

// The most elements that were made ahead of a consumer who takes them in bursts.
int most_ahead(const Dataset<Tensor>& dataset, const std::atomic<int>& calls) {
  int most = 0, taken = 0;
  for (const Tensor& x : dataset) {
    EXPECT_EQ(x.flatten()[0].item<int64_t>(), taken++);
    if (taken % 50 == 0) std::this_thread::sleep_for(5ms);
    most = std::max(most, calls - taken);
  }
  return most;
}

TEST(Prefetch, GrowsWhereItsConsumerFindsItEmpty) {
  const Watchdog watchdog(60s);
  std::atomic<int> calls = 0;
  EXPECT_GE(most_ahead(slow(1000, 0ms, calls).prefetch(kAutotune), calls), 16);
  calls = 0;
  EXPECT_LE(most_ahead(slow(1000, 0ms, calls).prefetch(1), calls), 3);
}

TEST(Prefetch, GrowsToNoMoreThan256MB) {
  const Watchdog watchdog(60s);
  std::atomic<int> calls = 0;
  const auto large = slow(300, 0ms, calls).map([](const Tensor& x) { return x.expand({8 << 20}); });  // 64 MB each
  EXPECT_LE(most_ahead(large.prefetch(kAutotune), calls), 2 + 2);  // two kept, one in hand, one that is looked at
}

TEST(Prefetch, StaysSmallWhereItsConsumerIsSlower) {
  const Watchdog watchdog(60s);
  std::atomic<int> calls = 0;
  auto iterator = slow(100, 0ms, calls).prefetch(kAutotune).begin();
  for (int i = 0; i < 20; ++i, ++iterator) {
    EXPECT_EQ(iterator->item<int64_t>(), i);
    while (calls < i + 3) std::this_thread::yield();  // one kept, and one that finds no room
  }
  EXPECT_LE(calls, 20 + 3);
}

TEST(Prefetch, AnErrorComesAfterTheElementsBeforeIt) {
  const auto dataset = range(10).map([](const Tensor& x) {
    if (x.item<int64_t>() == 5) throw std::string("five");
    return x;
  });
  auto iterator = dataset.prefetch(100).begin();
  for (int i = 0; i < 4; ++i) ++iterator;
  EXPECT_EQ(iterator->item<int64_t>(), 4);
  EXPECT_THROW(++iterator, std::string);
}

TEST(Prefetch, AForkedProcessDropsTheIteratorsOfItsParent) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto dataset = range(100).map([](const Tensor& x) { return x; }, {.num_parallel_calls = 2}).prefetch(2);
  auto iterator = std::optional(dataset.begin());
  EXPECT_EQ((*iterator)->item<int64_t>(), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = code_of([&] { ++*iterator; }) == ErrorCode::failed_precondition;
    iterator.reset();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ++*iterator;
  EXPECT_EQ((*iterator)->item<int64_t>(), 1);
}

}  // namespace
}  // namespace tutti::data
