#include "tutti/distribute/servers/link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/error_of.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/core/str.h"

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

TEST(Link, MessagesOfAnySizeComeWholeAndInOrder) {
  Ends ends;
  Link one({"worker", 0}, std::move(ends.one), 10s), other({"ps", 1}, std::move(ends.other), 10s);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{9} << 20}) {
    Bytes message(size);
    for (size_t i = 0; i < size; ++i) message[i] = static_cast<uint8_t>(i * 31 + size);
    one.send(message);
    one.say_alive();
    other.send({7});
    EXPECT_EQ(other.receive(), message) << size;
    EXPECT_EQ(one.receive(), Bytes{7});
  }
  EXPECT_FALSE(one.take());
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
  EXPECT_EQ(one.receive(), (Bytes{1, 2}));
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
  EXPECT_EQ(link.receive(), Bytes{7});
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
