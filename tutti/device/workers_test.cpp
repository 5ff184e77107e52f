#include "tutti/device/workers.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "tests/support/watchdog.h"
#include "tutti/core/error.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(Workers, RunsEveryRankOnceOnItsOwnThread) {
  const Watchdog watchdog(60s);
  for (const int num_ranks : {1, 2, 3, 8, 17}) {
    Workers workers(num_ranks);
    const auto size = static_cast<size_t>(num_ranks);
    std::vector<int> calls(size);
    std::vector<std::thread::id> first(size);
    for (int round = 0; round < 50; ++round)
      workers.run([&](int rank) {
        const auto i = static_cast<size_t>(rank);
        if (calls[i]++ == 0) first[i] = std::this_thread::get_id();
        EXPECT_EQ(first[i], std::this_thread::get_id());
      });
    EXPECT_EQ(calls, std::vector<int>(size, 50));
    EXPECT_EQ(first[0], std::this_thread::get_id());
    for (size_t i = 1; i < size; ++i) EXPECT_NE(first[i], first[i - 1]);
  }
}

TEST(Workers, RanksRunAtTheSameTime) {
  const Watchdog watchdog(60s);
  Workers workers(4);
  std::atomic<int> arrived = 0;
  workers.run([&](int) {
    ++arrived;
    while (arrived < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 4);
}

TEST(Workers, TheCallerSeesWhatTheRanksWrote) {
  const Watchdog watchdog(60s);
  Workers workers(3);
  std::vector<int64_t> values(3);
  for (int64_t round = 1; round <= 20'000; ++round) {
    workers.run([&](int rank) { values[static_cast<size_t>(rank)] += round; });
    ASSERT_EQ(values, std::vector<int64_t>(3, round * (round + 1) / 2));
  }
}

TEST(Workers, SleepingThreadsAreWoken) {
  const Watchdog watchdog(60s);
  Workers workers(3);
  std::atomic<int> calls = 0;
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(2ms);
    workers.run([&](int rank) {
      if (rank == 2) std::this_thread::sleep_for(2ms);
      ++calls;
    });
  }
  EXPECT_EQ(calls, 60);
}

TEST(Workers, MayBeDestroyedAtOnceOrAfterARun) {
  const Watchdog watchdog(60s);
  for (int i = 0; i < 200; ++i) Workers(3);
  for (int i = 0; i < 200; ++i) Workers(3).run([](int) {});
}

TEST(Workers, ThreadsBearTheirNames) {
  Workers workers(3, "mirrored strategy");
  std::string name(16, '\0');
  workers.run([&](int rank) {
    if (rank == 2) pthread_getname_np(pthread_self(), name.data(), name.size());
  });
  EXPECT_STREQ(name.c_str(), "mirrored s/2");
}

TEST(Workers, NeedARank) {
  EXPECT_THROW(Workers(0), Error);
  EXPECT_THROW(Workers(-3), Error);
}

}  // namespace
}  // namespace tutti
