#include "tutti/distribute/servers/link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/support/error_of.h"
#include "tutti/cluster/rpc/memory_stream.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"

namespace tutti::servers {
namespace {

using namespace std::chrono_literals;

// The two ends of a stream.
struct Ends {
  Ends() : address(str("unix-abstract:tutti-link-test-", getpid(), '-', ++count)) {
    std::promise<std::unique_ptr<rpc::Stream>> met;
    server.emplace(address, rpc::Credentials{},
                   [&](std::unique_ptr<rpc::Stream> stream) { met.set_value(std::move(stream)); });
    one = rpc::connect(address, {});
    other = met.get_future().get();
  }

  static inline int count = 0;
  std::string address;
  std::optional<rpc::Server> server;
  std::unique_ptr<rpc::Stream> one, other;
};

// The same, through memory.
struct MemoryEnds : Ends {
  MemoryEnds() {
    auto memory = rpc::SharedMemory::create();
    auto opened = rpc::SharedMemory::open(memory->offer());
    one = rpc::share_memory(std::move(one), std::move(memory), 0);
    other = rpc::share_memory(std::move(other), std::move(opened), 1);
  }
};

template <class E>
void expect_messages_of_any_size() {
  E ends;
  Link one({"worker", 0}, std::move(ends.one), 10s), other({"ps", 1}, std::move(ends.other), 10s);
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{5000}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{9} << 20}) {
    Bytes message(size);
    for (size_t i = 0; i < size; ++i) message[i] = static_cast<uint8_t>(i * 31 + size);
    one.send(message);
    one.say_alive();
    other.send({7});
    EXPECT_EQ(other.receive().bytes(), message) << size;
    EXPECT_EQ(one.receive().bytes(), Bytes{7});
  }
  EXPECT_FALSE(one.take());
}

TEST(Link, MessagesOfAnySizeComeWholeAndInOrder) {
  expect_messages_of_any_size<Ends>();
  expect_messages_of_any_size<MemoryEnds>();
}

// Parts of odd sizes, whose owners may write to them once they are sent, and one whose owner goes with the message.
template <class E>
void expect_parts() {
  E ends;
  Link one({"worker", 0}, std::move(ends.one), 10s), other({"ps", 1}, std::move(ends.other), 10s);
  const std::vector<size_t> sizes{3, 0, 8, 100'001, size_t{2} << 20, 1};
  for (int round = 0; round < 3; ++round) {
    LongMessage message(Kind::done);
    std::vector<Bytes> parts;
    for (const size_t size : sizes) parts.emplace_back(size, static_cast<uint8_t>(size + 1));
    for (const Bytes& part : parts) {
      message.number(static_cast<int64_t>(part.size()));
      message.part(part.data(), part.size());
    }
    const auto owned = std::make_shared<const Bytes>(50'000, uint8_t{9});
    message.part(owned->data(), owned->size(), owned);
    one.send(message);
    for (Bytes& part : parts) std::ranges::fill(part, uint8_t{0});
  }
  for (int round = 0; round < 3; ++round) {
    const Incoming came = other.receive();
    ByteReader reader(came, "a message");
    EXPECT_EQ(read_kind(reader), Kind::done);
    for (const size_t size : sizes) {
      ASSERT_EQ(reader.number(), static_cast<int64_t>(size));
      const uint8_t* const part = read_part(reader, size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % alignof(double), 0);
      EXPECT_EQ(Bytes(part, part + size), Bytes(size, static_cast<uint8_t>(size + 1)));
    }
    const uint8_t* const part = read_part(reader, 50'000);
    EXPECT_EQ(Bytes(part, part + 50'000), Bytes(50'000, 9));
    reader.finish();
  }
}

TEST(Link, LongPartsComeWhereTheyCanBeRead) {
  expect_parts<Ends>();
  expect_parts<MemoryEnds>();
}

TEST(Link, WhoSaysNothingIsLostAndNamed) {
  Ends ends;
  Link one({"worker", 0}, std::move(ends.one), 200ms);
  EXPECT_EQ(error_of([&] { one.receive(); }), "unavailable: worker 0 is lost: nothing has come from it for 200 ms");
}

TEST(Link, WhoIsAliveAndDoesNotAnswerIsLate) {
  Ends ends;
  Link one({"worker", 0}, std::move(ends.one), 10s);
  EXPECT_EQ(code_of([&] { one.receive(Link::Clock::now() + 50ms); }), ErrorCode::deadline_exceeded);
}

TEST(Link, WhoIsGoneIsLostAtOnceAfterWhatItSent) {
  Ends ends;
  Link one({"worker", 0}, std::move(ends.one), 60s);
  {
    Link other({"ps", 1}, std::move(ends.other), 60s);
    other.send({1, 2});
    other.close(5s);
  }
  EXPECT_EQ(one.receive().bytes(), (Bytes{1, 2}));
  EXPECT_EQ(code_of([&] { one.receive(); }), ErrorCode::unavailable);
}

TEST(Link, WhatCameOverANewConnectionBeforeItIsTakenIsAnEvent) {
  Ends before, with_message, that_ended;
  Link link({"worker", 0}, std::move(before.other), 10s);
  std::atomic<int> events = 0;
  link.on_event([&] { ++events; });
  Link sender({"ps", 1}, std::move(with_message.one), 10s);
  sender.send({7});
  while (!with_message.other->has_message()) std::this_thread::sleep_for(1ms);
  link.renew(std::move(with_message.other));
  EXPECT_EQ(events, 1);
  EXPECT_EQ(link.receive().bytes(), Bytes{7});
  that_ended.one.reset();
  while (!that_ended.other->end()) std::this_thread::sleep_for(1ms);
  events = 0;
  link.renew(std::move(that_ended.other));
  EXPECT_GE(events, 1);
  EXPECT_EQ(code_of([&] { link.take(); }), ErrorCode::unavailable);
}

// What is sent below a Link, in its place.
std::optional<ErrorCode> code_of_bytes(std::vector<std::vector<uint8_t>> pieces) {
  Ends ends;
  Link one({"worker", 0}, std::move(ends.one), 2s);
  for (auto& piece : pieces) ends.other->send({.head = std::move(piece)});
  return code_of([&] { one.receive(); });
}

TEST(Link, BytesThatAreNoMessageAreRefused) {
  EXPECT_EQ(code_of_bytes({{1}}), ErrorCode::data_loss);
  EXPECT_EQ(code_of_bytes({std::vector<uint8_t>(16)}), ErrorCode::data_loss);
  EXPECT_EQ(code_of_bytes({std::vector<uint8_t>(1000, 0xff)}), ErrorCode::data_loss);
}

}  // namespace
}  // namespace tutti::servers
