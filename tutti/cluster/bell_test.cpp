#include "tutti/cluster/rpc/bell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace tutti::rpc {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<SeenBell> seen_of(std::vector<Bell>& bells) {
  std::vector<SeenBell> seen;
  for (Bell& bell : bells) seen.push_back({&bell, bell.count.load()});
  return seen;
}

bool has_rung(const std::vector<SeenBell>& bells) {
  return std::ranges::any_of(bells, [](const SeenBell& each) { return each.bell->count != each.seen; });
}

// A sleep of which nobody is woken takes 100 ms.
TEST(Bells, AnyOfThoseThatSomebodyWaitsForWakesThem) {
  constexpr size_t kRounds = 60;
  for (const size_t count : {size_t{1}, size_t{3}, kMostBells}) {
    if (count > 1 && !can_wait_for_several()) GTEST_SKIP() << "the kernel waits for one alone";
    std::vector<Bell> bells(count);
    const auto begin = Clock::now();
    for (size_t round = 0; round < kRounds; ++round) {
      const auto seen = seen_of(bells);
      std::thread other([&] {
        while (bells[0].is_sleeping == 0) std::this_thread::yield();
        ring(bells[round % count], kMessages);
      });
      while (!has_rung(seen)) wait_past_any(seen, Clock::now() + 20s);
      other.join();
    }
    EXPECT_LT(Clock::now() - begin, kRounds * 50ms);
    for (const Bell& bell : bells) EXPECT_EQ(bell.is_sleeping, 0);
  }
}

TEST(Bells, ThatHaveRungBeforeTheSleepAreNotMissed) {
  std::vector<Bell> bells(2);
  const auto seen = seen_of(bells);
  ring(bells[1], kMessages);
  const auto begin = Clock::now();
  for (int i = 0; i < 100; ++i) wait_past_any(seen, Clock::now() + 20s);
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(Bells, NobodyWaitsForThemPastTheDeadline) {
  std::vector<Bell> bells(2);
  const auto begin = Clock::now();
  for (int i = 0; i < 50; ++i) wait_past_any(seen_of(bells), Clock::now() + (i % 2 == 0 ? 5ms : -5ms));
  EXPECT_LT(Clock::now() - begin, 50 * 50ms);
  EXPECT_EQ(bells[0].count, 0U);
}

}  // namespace
}  // namespace tutti::rpc
