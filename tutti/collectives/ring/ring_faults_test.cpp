// Faults that a network makes: whatever happens to the bytes, every member ends in time, and what it got is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/ring_members.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/ring/ring_message.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = 400ms;

// TUTTI_FAULT_SCHEDULES=1000 runs more of them, TUTTI_FAULT_SEED=… others.
int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

Fault random_fault(std::mt19937& random, int64_t last_byte) {
  const auto place = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(last_byte)); };
  switch (random() % 6) {
    case 0: return {.cut_after = place()};
    case 1: return {.stall_after = place()};
    case 2: return {.flip_at = place()};
    case 3: return {.delay_ms = static_cast<int>(random() % 5)};
    default: return {};
  }
}

// A ring in a folder, each member's door behind a proxy.
struct ProxiedRing {
  ProxiedRing(const TemporaryFolder& folder, int size, const std::function<std::pair<Fault, Fault>(int)>& faults) {
    for (int rank = 0; rank < size; ++rank) {
      const auto [forward, back] = faults(rank);
      proxies.push_back(std::make_unique<FaultProxy>((folder / str('p', rank)).string(),
                                                     (folder / str('d', rank)).string(), forward, back));
    }
    place.listens_at = [path = folder.path()](int rank) { return str("unix:", (path / str('d', rank)).string()); };
    place.dials = [path = folder.path()](int rank) { return str("unix:", (path / str('p', rank)).string()); };
    place.patience = 2s;
  }
  RingPlace place;
  std::vector<std::unique_ptr<FaultProxy>> proxies;
};

// Sums until the end or an error, and what that was. A sum that is returned is right.
std::string sum_through(Group& group, int rounds, int64_t count) {
  return error_of([&] {
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> values(static_cast<size_t>(count), static_cast<float>(group.rank() + round));
      group.run({.kind = CollectiveKind::all_reduce,
                 .count = count,
                 .input = values.data(),
                 .output = values.data(),
                 .name = "gradients"});
      const float expected = static_cast<float>(group.size() * (group.size() - 1) / 2 + group.size() * round);
      EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == expected; }));
    }
  });
}

TEST(RingFaults, EveryMemberEndsInTimeInRandomSchedules) {
  const Watchdog watchdog(std::chrono::seconds(number_from("TUTTI_FAULT_SCHEDULES", 20) * 8));
  std::mt19937 random(static_cast<unsigned>(number_from("TUTTI_FAULT_SEED", 1)));
  int num_failed = 0;
  for (int schedule = 0; schedule < number_from("TUTTI_FAULT_SCHEDULES", 20); ++schedule) {
    const int size = 2 + static_cast<int>(random() % 2);
    const int64_t count = random() % 2 == 0 ? 100 : 40'000;
    const TemporaryFolder folder;
    const ProxiedRing ring(folder, size, [&](int) {
      return std::pair(random_fault(random, 20 * count), random_fault(random, 20 * count));
    });
    std::vector<std::thread> members;
    std::vector<std::string> errors(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank)
      members.emplace_back([&, rank] {
        std::string& error = errors[static_cast<size_t>(rank)];
        std::unique_ptr<Group> group;
        error = error_of([&] { group = join_ring(ring.place, rank, size, {.timeout = kTimeout}); });
        if (!group) return;
        const auto begin = Clock::now();
        error = sum_through(*group, 10, count);
        EXPECT_LT(Clock::now() - begin, kTimeout * 10 + 1s) << schedule;
        const auto end = Clock::now();
        group.reset();
        EXPECT_LT(Clock::now() - end, 3s) << schedule;
      });
    for (std::thread& member : members) member.join();
    for (const std::string& error : errors) {
      num_failed += error != "no error";
      EXPECT_THAT(error, AnyOf("no error", HasSubstr("unavailable"), HasSubstr("deadline_exceeded"),
                               HasSubstr("data_loss"), HasSubstr("failed_precondition")))
          << schedule;
    }
  }
  EXPECT_GT(num_failed, 0);
}

// Members behind proxies that do not know each other's faults: what they say when bytes stop, or change.
std::vector<std::string> errors_of_two(Fault back, std::chrono::milliseconds* took) {
  const TemporaryFolder folder;
  const ProxiedRing ring(folder, 2, [&](int rank) { return std::pair(Fault(), rank == 0 ? back : Fault()); });
  std::vector<std::string> errors(2);
  std::vector<std::thread> members;
  for (int rank = 0; rank < 2; ++rank)
    members.emplace_back([&, rank] {
      const auto group = join_ring(ring.place, rank, 2, {.timeout = kTimeout});
      const auto begin = Clock::now();
      errors[static_cast<size_t>(rank)] = sum_through(*group, 1000, 1000);
      if (rank == 1) *took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    });
  for (std::thread& member : members) member.join();
  return errors;
}

TEST(RingFaults, ACutConnectionIsNamedAtOnceAndASilentOneAtTheDeadline) {
  std::chrono::milliseconds took{};
  for (const std::string& error : errors_of_two({.cut_after = 100'000}, &took))
    EXPECT_THAT(error, AllOf(HasSubstr("unavailable: rank "), HasSubstr("is lost ("),
                             HasSubstr("all_reduce of 1000 float32 'gradients' at ring_faults_test.cpp:")));
  EXPECT_LT(took, kTimeout + 1s);
  const std::string late = errors_of_two({.stall_after = 100'000}, &took)[1];
  EXPECT_THAT(late, AllOf(HasSubstr("deadline_exceeded: rank 1 has waited for 400 ms at all_reduce"),
                          HasSubstr("rank 0 has not come")));
  EXPECT_LT(took, kTimeout + 1s);
}

// One bit that no checksum of the network has caught.
TEST(RingFaults, AChangedBitIsAnErrorAndNoSum) {
  std::chrono::milliseconds took{};
  for (int64_t place = 100'000; place < 100'040; place += 10) {
    const auto errors = errors_of_two({.flip_at = place}, &took);
    EXPECT_THAT(errors[1], AnyOf(HasSubstr("were changed on their way"), HasSubstr("unavailable"),
                                 HasSubstr("deadline"), HasSubstr("data_loss"), HasSubstr("failed_precondition")));
  }
}

TEST(RingMessage, IsReadAsItWasWrittenAndNothingElseIs) {
  CallRecord call;
  std::memset(&call, 0, sizeof call);
  const rpc::Outgoing sent = ring_message(&call, 7, {}, 0);
  const auto parse = [](std::vector<uint8_t> bytes) {
    const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
    return RingMessage::parse({owner, {std::as_bytes(std::span(*owner))}});
  };
  EXPECT_TRUE(parse(sent.head).call());
  EXPECT_EQ(parse(sent.head).number(), 7);
  for (size_t bit = 0; bit < 8 * sent.head.size(); ++bit) {
    std::vector<uint8_t> changed = sent.head;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(code_of([&] { parse(changed); }), ErrorCode::data_loss) << "bit " << bit;
  }
  std::mt19937 random(8);
  const rpc::Outgoing failure = ring_failure(Error(ErrorCode::cancelled, "enough"));
  EXPECT_STREQ(parse(failure.head).error().what(), "enough");
  for (const auto& good : {sent.head, failure.head, ring_goodbye(7).head})
    for (int i = 0; i < 50'000; ++i) {
      std::vector<uint8_t> bytes = good;
      bytes.resize(random() % 4 == 0 ? random() % (good.size() + 1) : good.size());
      for (int change = 0; change < 3 && !bytes.empty(); ++change)
        bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      try {
        const RingMessage message = parse(bytes);
        if (message.kind() == RingMessageKind::failure) message.error();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::data_loss);
      }
    }
}

// The control plane through the same faults.
TEST(ClusterFaults, EveryTaskEndsInTimeInRandomSchedules) {
  const int num_schedules = number_from("TUTTI_FAULT_SCHEDULES", 10);
  const Watchdog watchdog(std::chrono::seconds(num_schedules * 20));
  std::mt19937 random(static_cast<unsigned>(number_from("TUTTI_FAULT_SEED", 2)));
  for (int schedule = 0; schedule < num_schedules; ++schedule) {
    const TemporaryFolder folder;
    cluster::Door door(str("unix:", (folder / "d0").string()), {},
                       [](const cluster::PeerHello&) { return std::optional<Error>(); });
    const FaultProxy proxy((folder / "p0").string(), (folder / "d0").string(), random_fault(random, 3000),
                           random_fault(random, 3000));
    std::thread member([&] {
      std::unique_ptr<rpc::Stream> stream;
      error_of([&] {
        stream = cluster::knock(str("unix:", (folder / "p0").string()), "worker 0",
                                cluster::PeerHello{.task = {"worker", 1}, .purpose = "leader"}, {}, 1s);
      });
      if (!stream) return;
      for (uint8_t i = 0; i < 100; ++i) stream->send({std::vector<uint8_t>(20, i)});
      stream->close(500ms);
    });
    if (auto visitor = door.take("leader", Clock::now() + 1s)) {
      error_of([&] {
        while (true) visitor->stream->receive(Clock::now() + 500ms);
      });
    }
    member.join();
  }
}

}  // namespace
}  // namespace tutti
