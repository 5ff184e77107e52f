#include "tutti/cluster/rpc/memory_stream.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/cluster/door.h"
#include "tutti/core/bytes.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;

// The two ends of a stream, over memory that both have mapped, and what another process could do to it.
struct Ends {
  Ends() : address(str("unix-abstract:tutti-memory-test-", getpid(), '-', ++count)) {
    std::promise<std::unique_ptr<Stream>> met;
    server.emplace(address, Credentials{}, [&](std::unique_ptr<Stream> stream) { met.set_value(std::move(stream)); });
    auto near = connect(address, {});
    auto far = met.get_future().get();
    auto memory = SharedMemory::create();
    seen = SharedMemory::open(memory->offer());
    auto opened = SharedMemory::open(memory->offer());
    one = share_memory(std::move(near), std::move(memory), 0);
    other = share_memory(std::move(far), std::move(opened), 1);
  }

  static inline int count = 0;
  std::string address;
  std::optional<Server> server;
  std::unique_ptr<SharedMemory> seen;
  std::unique_ptr<Stream> one, other;
};

Bytes bytes_of(size_t size, uint64_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + seed * 7);
  return bytes;
}

Bytes received(Stream& from) { return from.receive(Clock::now() + 20s).bytes(kMaxMessageBytes); }

Outgoing in_two(const Bytes& bytes, size_t in_head) {
  const auto split = static_cast<std::ptrdiff_t>(std::min(in_head, bytes.size()));
  Outgoing message{.head = {bytes.begin(), bytes.begin() + split}};
  const auto rest = std::make_shared<const Bytes>(bytes.begin() + split, bytes.end());
  if (!rest->empty())
    message.payload = {std::shared_ptr<const std::byte[]>(rest, reinterpret_cast<const std::byte*>(rest->data())),
                       rest->size()};
  return message;
}

TEST(MemoryStream, MessagesOfAnySizeComeWholeAndInOrder) {
  Ends ends;
  constexpr size_t kRing = SharedMemory::kRingBytes;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{7}, kRing - 8, kRing - 7, kRing, kRing + 1, kMaxMessageBytes}) {
    ends.one->send(in_two(bytes_of(size, 1), 5));
    ends.other->send({bytes_of(3, size)});
    EXPECT_EQ(received(*ends.other), bytes_of(size, 1));
    EXPECT_EQ(received(*ends.one), bytes_of(3, size));
  }
}

// Each sends much more than the rings hold before either takes anything.
TEST(MemoryStream, FullRingsHoldBackWhoSendsAndLoseNothing) {
  Ends ends;
  std::mt19937 random(3);
  std::vector<size_t> sizes(400);
  for (size_t& size : sizes) size = random() % 60'000;
  for (size_t i = 0; i < sizes.size(); ++i) {
    ends.one->send(in_two(bytes_of(sizes[i], i), random() % 100));
    ends.other->send({bytes_of(sizes[i], i + 1)});
  }
  std::thread reader([&] {
    for (size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(received(*ends.other), bytes_of(sizes[i], i)) << i;
  });
  for (size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(received(*ends.one), bytes_of(sizes[i], i + 1)) << i;
  reader.join();
}

TEST(MemoryStream, ThreadsThatSendAndTakeAtOnceLoseNothing) {
  Ends ends;
  constexpr int kMessages = 50'000;
  const auto pass = [&](Stream& from, Stream& to) {
    std::thread sender([&] {
      for (int i = 0; i < kMessages; ++i)
        from.send({bytes_of(1 + static_cast<size_t>(i) % 100, static_cast<size_t>(i))});
    });
    for (int i = 0; i < kMessages; ++i)
      ASSERT_EQ(received(to), bytes_of(1 + static_cast<size_t>(i) % 100, static_cast<size_t>(i))) << i;
    sender.join();
  };
  std::thread back([&] { pass(*ends.other, *ends.one); });
  pass(*ends.one, *ends.other);
  back.join();
}

TEST(MemoryStream, WhatWasSentBeforeItIsClosedComesAndBothKnow) {
  Ends ends;
  const size_t many = 100, each = 50'000;  // more than a ring
  for (size_t i = 0; i < many; ++i) ends.one->send({bytes_of(each, i)});
  std::thread reader([&] {
    for (size_t i = 0; i < many; ++i) ASSERT_EQ(received(*ends.other), bytes_of(each, i));
    EXPECT_EQ(error_of([&] { received(*ends.other); }), "unavailable: the other side has closed the connection");
  });
  EXPECT_TRUE(ends.one->close(20s));
  reader.join();
}

TEST(MemoryStream, OneThatIsDestroyedEndsTheOtherAfterWhatItSent) {
  Ends ends;
  ends.one->send({bytes_of(100, 1)});
  while (!ends.other->has_message()) std::this_thread::sleep_for(1ms);
  ends.one.reset();
  EXPECT_EQ(received(*ends.other), bytes_of(100, 1));
  EXPECT_EQ(code_of([&] { received(*ends.other); }), ErrorCode::unavailable);
}

TEST(MemoryStream, OneThatWaitsForRoomIsDestroyedAtOnce) {
  Ends ends;
  for (int i = 0; i < 100; ++i) ends.one->send({bytes_of(100'000, 1)});
  const auto begin = Clock::now();
  ends.one.reset();
  EXPECT_LT(Clock::now() - begin, 2s);
}

TEST(MemoryStream, NothingComesBeforeTheDeadlineWhereNothingIsSent) {
  Ends ends;
  EXPECT_EQ(code_of([&] { ends.one->receive(Clock::now() + 20ms); }), ErrorCode::deadline_exceeded);
}

// A long message lies in the ring as long as somebody has it, and those that come meanwhile do not touch it.
TEST(MemoryStream, MessagesKeepTheirBytesAndRoomUntilTheyAreLetGo) {
  Ends ends;
  constexpr size_t kLong = SharedMemory::kRingBytes / 5;
  const auto receive = [&] { return std::make_optional(ends.other->receive(Clock::now() + 20s)); };
  std::vector<std::optional<Message>> held;
  for (size_t i = 0; i < 9; ++i) ends.one->send({bytes_of(kLong + i, i)});
  for (size_t i = 0; i < 4; ++i) held.push_back(receive());
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(ends.other->has_message()) << "there is no room for another one";
  held[2].reset();
  held[1].reset();  // in another order than they came
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(ends.other->has_message()) << "the room is behind one that is still held";
  EXPECT_EQ(held[0]->bytes(kMaxMessageBytes), bytes_of(kLong, 0));
  held[0].reset();
  for (size_t i = 4; i < 7; ++i) held.push_back(receive());
  for (const size_t i : {3, 4, 5, 6}) EXPECT_EQ(held[i]->bytes(kMaxMessageBytes), bytes_of(kLong + i, i)) << i;
  held[3].reset();
  held[4].reset();
  for (size_t i = 7; i < 9; ++i) EXPECT_EQ(received(*ends.other), bytes_of(kLong + i, i)) << i;
  ends.other.reset();
  ends.one.reset();
  EXPECT_EQ(held[6]->bytes(kMaxMessageBytes), bytes_of(kLong + 6, 6)) << "it outlives the stream";
}

// So that they stay in the caches.
TEST(MemoryStream, LongMessagesThatComeOneByOneUseTheSameMemory) {
  Ends ends;
  const std::byte* first = nullptr;
  for (size_t i = 0; i < 20; ++i) {
    for (size_t k = 0; k < i; ++k) {
      ends.one->send({bytes_of(10 * k, k)});
      EXPECT_EQ(received(*ends.other), bytes_of(10 * k, k));
    }
    ends.one->send({bytes_of(200'000 + i, i)});
    const Message message = ends.other->receive(Clock::now() + 20s);
    EXPECT_EQ(message.bytes(kMaxMessageBytes), bytes_of(200'000 + i, i));
    ASSERT_EQ(message.pieces().size(), 1);
    if (!first) first = message.pieces()[0].data();
    EXPECT_EQ(message.pieces()[0].data(), first) << i;
  }
}

// Who waits reads what comes, and a thread where somebody listens: each of them, in turn, gets all.
TEST(MemoryStream, NothingIsLostWhereListenersComeAndGo) {
  Ends ends;
  constexpr size_t kMessages = 20'000;
  std::thread sender([&] {
    for (size_t i = 0; i < kMessages; ++i) ends.one->send({bytes_of(i % 50, i)});
  });
  std::atomic<bool> ends_listening = false;
  std::thread listener([&] {
    while (!ends_listening) {
      ends.other->on_event([] {});
      std::this_thread::sleep_for(1ms);
      ends.other->on_event(nullptr);
      std::this_thread::sleep_for(1ms);
    }
  });
  const auto begin = Clock::now();
  for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(received(*ends.other), bytes_of(i % 50, i)) << i;
  ends_listening = true;
  EXPECT_LT(Clock::now() - begin, 60s);
  sender.join();
  listener.join();
}

TEST(MemoryStream, WhatCameBeforeSomebodyListensIsAnEvent) {
  Ends ends;
  ends.one->send({bytes_of(10, 1)});
  std::promise<void> told;
  ends.other->on_event([&, is_told = false]() mutable {
    if (!std::exchange(is_told, true)) told.set_value();
  });
  EXPECT_EQ(told.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(received(*ends.other), bytes_of(10, 1));
}

// What is lent is written at once, or copied.
TEST(MemoryStream, LentBytesAreNotNeededOnceTheyAreSent) {
  Ends ends;
  constexpr size_t kMessages = 30, kSize = 100'000;  // more than the ring holds
  for (size_t i = 0; i < kMessages; ++i) {
    Bytes lent = bytes_of(kSize, i);
    const auto payload = Payload::lent(lent.data(), lent.size());
    ends.one->send(
        {.head = {7}, .payload = payload.part(0, 10), .more = {payload.part(10, 5), payload.part(15, kSize - 15)}});
    std::ranges::fill(lent, uint8_t{0});
  }
  for (size_t i = 0; i < kMessages; ++i) {
    const Bytes bytes = received(*ends.other);
    EXPECT_EQ(Bytes(bytes.begin() + 1, bytes.end()), bytes_of(kSize, i)) << i;
  }
}

TEST(MemoryStream, ALostConnectionEndsIt) {
  Ends ends;
  std::promise<void> told;
  ends.one->on_event([&] {
    if (ends.one->end()) told.set_value();
  });
  ends.other.reset();
  EXPECT_EQ(told.get_future().wait_for(20s), std::future_status::ready);
}

// What a broken process may write there ends the stream with an error, for both.
void expect_damaged(const std::function<void(SharedMemory& memory)>& harm, const std::string& what) {
  Ends ends;
  harm(*ends.seen);
  EXPECT_EQ(error_of([&] { received(*ends.one); }),
            "unavailable: the shared memory of the connection is damaged: " + what);
  EXPECT_EQ(code_of([&] { received(*ends.other); }), ErrorCode::unavailable);
}

TEST(MemoryStream, DamageEndsIt) {
  const auto announce = [](SharedMemory& memory, uint64_t size) {
    std::memcpy(memory.ring_from(1).bytes, &size, sizeof size);
    memory.ring_from(1).head = sizeof size;
  };
  expect_damaged([](SharedMemory& memory) { memory.ring_from(1).head = SharedMemory::kRingBytes + 1; },
                 "it holds more than it can");
  expect_damaged([](SharedMemory& memory) { memory.ring_from(1).head = ~uint64_t{0}; }, "it holds more than it can");
  expect_damaged([&](SharedMemory& memory) { announce(memory, kMaxMessageBytes + 1); },
                 "a message is longer than one can be");
  expect_damaged([&](SharedMemory& memory) { announce(memory, ~uint64_t{1}); }, "a message is longer than one can be");
  Ends ends;
  ends.seen->ring_from(0).tail = 1;  // of what nobody has written
  ends.one->send({bytes_of(10, 1)});
  EXPECT_EQ(error_of([&] { received(*ends.one); }),
            "unavailable: the shared memory of the connection is damaged: more was read than was written");
}

// Whatever the words between them become, nothing hangs and nothing is read or written elsewhere.
TEST(MemoryStream, RandomDamageHarmsNobody) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    Ends ends;
    std::thread sender([&] {
      for (int i = 0; i < 200; ++i) ends.one->send({bytes_of(random() % 3000, 1)});
    });
    std::mt19937_64 own(static_cast<uint64_t>(round));
    for (int i = 0; i < 20; ++i) {
      const SharedMemory::Ring ring = ends.seen->ring_from(static_cast<int>(own() % 2));
      Bell& bell = ends.seen->bell(static_cast<int>(own() % 2));
      const uint64_t value = own() % 3 == 0 ? own() : own() % 5000;
      switch (own() % 6) {
        case 0: ring.head = value; break;
        case 1: ring.tail = value; break;
        case 2: ring.waits_for_room = static_cast<uint32_t>(value); break;
        case 3: bell.is_sleeping = static_cast<uint32_t>(value); break;
        case 4: bell.count = static_cast<uint32_t>(value); break;
        case 5: ring.bytes[value % SharedMemory::kRingBytes] = static_cast<std::byte>(own()); break;
      }
      ends.other->take();
    }
    sender.join();
  }
}

TEST(SharedMemory, OnlyWhatWasOfferedIsOpened) {
  const auto memory = SharedMemory::create();
  EXPECT_TRUE(SharedMemory::open(memory->offer()));
  const auto offer = [](const std::string& place, int64_t process, int64_t file, const std::string& key) {
    ByteWriter writer;
    writer.text(place);
    writer.number(process);
    writer.number(file);
    writer.text(key);
    return std::string(writer.bytes().begin(), writer.bytes().end());
  };
  const auto code = [&](int64_t process, int64_t file) {
    return code_of([&] { SharedMemory::open(offer(place_of_process(), process, file, std::string(32, 'k'))); });
  };
  EXPECT_FALSE(SharedMemory::open(offer("another host", getpid(), 0, std::string(32, 'k'))));
  EXPECT_EQ(code(getpid(), 0), ErrorCode::failed_precondition);
  EXPECT_EQ(code(getpid(), 100'000), ErrorCode::failed_precondition);
  EXPECT_EQ(code((1 << 30) - 1, 3), ErrorCode::failed_precondition);
  const FileDescriptor unsealed(memfd_create("tutti-link", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.number(), 3 << 20), 0);
  EXPECT_EQ(code(getpid(), unsealed.number()), ErrorCode::failed_precondition);
  std::string other_key = memory->offer();
  other_key.back() ^= 1;
  EXPECT_EQ(code_of([&] { SharedMemory::open(other_key); }), ErrorCode::failed_precondition);
  for (size_t size = 0; size < other_key.size(); ++size)
    EXPECT_EQ(code_of([&] { SharedMemory::open(memory->offer().substr(0, size)); }), ErrorCode::data_loss);
}

TEST(Door, SharesMemoryWithWhoOffersIt) {
  const TemporaryFolder folder;
  const std::string address = str("unix:", (folder / "door").string());
  cluster::Door door(address, {}, [](const cluster::PeerHello&) { return std::optional<Error>(); });
  for (const auto over : {Carriage::shared_memory, Carriage::sockets}) {
    const cluster::PeerHello hello{.task = {"worker", 1}, .purpose = "test"};
    const auto one = cluster::knock(address, "worker 0", hello, {}, 5s, over);
    const auto visitor = door.take("test", Clock::now() + 5s);
    ASSERT_TRUE(visitor);
    EXPECT_EQ(visitor->hello.memory.empty(), over == Carriage::sockets);
    one->send({bytes_of(5000, 1)});
    EXPECT_EQ(received(*visitor->stream), bytes_of(5000, 1));
    visitor->stream->send({bytes_of(5000, 2)});
    EXPECT_EQ(received(*one), bytes_of(5000, 2));
  }
}

}  // namespace
}  // namespace tutti::rpc
