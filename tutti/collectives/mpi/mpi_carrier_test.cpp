#include "tutti/collectives/mpi/mpi_carrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/mpi_in_memory.h"
#include "tests/support/ring_members.h"
#include "tutti/cluster/rpc/stream.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

int unused_tag() {
  static int tag = 1'000'000;
  return tag += 2;
}

rpc::Outgoing message_of(size_t head, size_t payload, uint8_t seed) {
  const auto bytes = std::make_shared<std::byte[]>(payload);
  for (size_t i = 0; i < payload; ++i) bytes[i] = static_cast<std::byte>(seed + i * 3);
  return {.head = std::vector<uint8_t>(head, seed), .payload = {bytes, payload}};
}

std::vector<uint8_t> bytes_of(const rpc::Outgoing& message) {
  std::vector<uint8_t> all = message.head;
  const auto* payload = reinterpret_cast<const uint8_t*>(message.payload.bytes.get());
  all.insert(all.end(), payload, payload + message.payload.size);
  return all;
}

rpc::Message take_next(RingCarrier& carrier, int peer) {
  while (true)
    if (auto message = carrier.take(peer)) return *message;
}

TEST(MpiCarrier, CarriesMessagesOfAllLengthsInOrderThoughTheSenderForgetsThem) {
  const int tag = unused_tag();
  const auto sender = mpi_carrier(mpi_in_memory(3), 0, {3, 1}, tag),
             receiver = mpi_carrier(mpi_in_memory(1), 1, {3, 1}, tag);
  std::vector<size_t> lengths{0, 1, 3791, 3792, 3793, 4000, 4001, 262'144, 0, rpc::kMaxMessageBytes, 5};
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) lengths.push_back(random() % 20'000);
  uint8_t seed = 0;
  for (const size_t length : lengths) sender->send(1, message_of(200, length, ++seed));
  seed = 0;
  for (const size_t length : lengths)
    EXPECT_TRUE(take_next(*receiver, 0).bytes(size_t{8} << 20) == bytes_of(message_of(200, length, ++seed))) << length;
  while (!sender->has_sent(1)) {
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(receiver->take(0).has_value());
}

TEST(MpiCarrier, IsDoneWithALongMessageOnlyWhenItIsTaken) {
  const int tag = unused_tag();
  const auto sender = mpi_carrier(mpi_in_memory(0), 0, {0, 1}, tag),
             receiver = mpi_carrier(mpi_in_memory(1), 1, {0, 1}, tag);
  sender->send(1, message_of(8, 100'000, 1));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(sender->has_sent(1));
  take_next(*receiver, 0);
  while (!sender->has_sent(1)) {
  }
}

// What somebody who is no member of ours may send.
std::string error_of_frame(const std::vector<uint64_t>& frame, size_t size) {
  const int tag = unused_tag();
  const auto receiver = mpi_carrier(mpi_in_memory(1), 1, {0, 1}, tag);
  MpiRequest request = 0;
  mpi_in_memory(0).send(1, tag, frame.data(), size, &request);
  return error_of([&] { take_next(*receiver, 0); });
}

TEST(MpiCarrier, BelievesNoLength) {
  EXPECT_THAT(error_of_frame({0}, 3), AllOf(HasSubstr("data_loss"), HasSubstr("3 bytes")));
  EXPECT_THAT(error_of_frame({0}, 0), HasSubstr("data_loss"));
  EXPECT_THAT(error_of_frame({rpc::kMaxMessageBytes + 1}, 8),
              AllOf(HasSubstr("data_loss"), HasSubstr("4194305 bytes")));
  EXPECT_THAT(error_of_frame({UINT64_MAX}, 8), HasSubstr("data_loss"));
  EXPECT_EQ(error_of_frame(std::vector<uint64_t>(600), 4800), "unavailable: MPI: a message is longer than its room");
}

TEST(MpiCarrier, AFailureOfMpiEndsTheCallOfEveryMember) {
  Groups groups = mpi_of_threads(2, 20s);
  const auto errors = on_all_members(groups, MembersAre::threads, [](Group& group) {
    static const std::vector<uint64_t> nonsense(600);
    MpiRequest request = 0;
    // Ranks in MPI go the other way round; the group's tag is the last that was given.
    if (group.rank() == 0) mpi_in_memory(1).send(0, last_tag_of_threads(), nonsense.data(), 4800, &request);
    float value = 1;
    for (int call = 0; call < 2; ++call)  // the first may have ended for who has all that it needs
      group.run({.kind = CollectiveKind::all_reduce, .count = 1, .input = &value, .output = &value, .name = "loss"});
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("unavailable"), HasSubstr("rank 0 to rank 1: MPI: a message is longer")));
}

}  // namespace
}  // namespace tutti
