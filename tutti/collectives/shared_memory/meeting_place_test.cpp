#include "tutti/collectives/shared_memory/meeting_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kBoth[] = {0, 1};

// A memory of two members, both of this process.
struct TwoMembers {
  TwoMembers() {
    for (const int rank : kBoth) memory.member(rank).pid = getpid();
  }
  MeetingPlace::Seat seat(int rank) const { return {memory.all(), kBoth, rank}; }

  GroupMemory memory{GroupMemory::create(2).number()};
};

// The last member dies when its arrival is counted and it has told nobody; another one finds it dead.
TEST(MeetingPlace, PassesARoundThatAllHaveComeToThoughAFailureIsRecorded) {
  TwoMembers two;
  MeetingPlace place(two.memory, 0, 10s);
  std::string error = "none yet";
  std::thread waiting([&] { error = error_of([&] { place.meet(two.seat(0), {}, 1); }); });
  std::this_thread::sleep_for(5ms);  // it sleeps, or will come to it
  two.memory.all().state->arrivals += 2;
  MeetingPlace(two.memory, 1, 10s).record(ErrorCode::unavailable, "rank 1 has died");
  waiting.join();
  EXPECT_EQ(error, "no error");
  EXPECT_THAT(error_of([&] { place.throw_if_failed({}); }), HasSubstr("rank 1 has died"));
}

TEST(MeetingPlace, LetsNobodyComeToARoundThatAnotherHasGivenUp) {
  TwoMembers two;
  MeetingPlace first(two.memory, 0, 30ms), late(two.memory, 1, 30ms);
  EXPECT_THAT(error_of([&] { first.meet(two.seat(0), {}, 1); }), HasSubstr("rank 1 has not come"));
  EXPECT_THAT(error_of([&] { late.meet(two.seat(1), {}, 1); }), HasSubstr("rank 1 has not come"));
}

TEST(MeetingPlace, WakesWhoSleepsWhenTheLastComes) {
  TwoMembers two;
  for (uint64_t round = 1; round <= 20; ++round) {
    std::chrono::steady_clock::time_point passed;
    std::thread waiting([&] {
      MeetingPlace(two.memory, 0, 10s).meet(two.seat(0), {}, round);
      passed = std::chrono::steady_clock::now();
    });
    while (two.memory.all().state->num_sleeping == 0) std::this_thread::yield();
    const auto came = std::chrono::steady_clock::now();
    MeetingPlace(two.memory, 1, 10s).meet(two.seat(1), {}, round);
    waiting.join();
    if (passed - came < 10ms) return;  // before its slice of sleep was over; beside a busy neighbour not each time
  }
  ADD_FAILURE() << "no member woke before its slice of sleep was over";
}

}  // namespace
}  // namespace tutti
