#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/cluster/rpc/stream.h"
#include "tutti/cluster/task.h"

namespace tutti::servers {

using Bytes = std::vector<uint8_t>;
class LongMessage;

// A message that has come whole. Its bytes stay where they came, as long as somebody has it, or its owner: in memory
// that two tasks share they take the room of what comes next.
class Incoming {
 public:
  Incoming(Bytes bytes);
  Incoming(std::shared_ptr<const void> owner, std::span<const uint8_t> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  operator std::span<const uint8_t>() const { return bytes_; }
  Bytes bytes() const { return {bytes_.begin(), bytes_.end()}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const uint8_t> bytes_;
};

// Messages of any size to and from one other task, each way in order. They travel in pieces with checksums, in shared
// memory of their heads alone; memory for what is announced is taken as it comes. Who says nothing for too long, while
// it is waited for, is lost.
class Link {
 public:
  using Clock = std::chrono::steady_clock;

  Link(const cluster::Task& peer, std::unique_ptr<rpc::Stream> stream, std::chrono::milliseconds silence);

  const std::string& name() const { return name_; }  // "ps 1"

  // Never block; any thread. To one that is lost they do nothing.
  void send(Bytes message) { send(std::make_shared<const Bytes>(std::move(message))); }
  void send(const std::shared_ptr<const Bytes>& message);
  // Its parts need not stay.
  void send(const LongMessage& message);
  void say_alive();

  // From now on over another connection to the same task; what has not come whole is forgotten. For the thread that
  // receives.
  void renew(std::unique_ptr<rpc::Stream> stream);
  // Whether nothing has come over it yet.
  bool is_new() const { return heard_ == renewed_; }

  // Ends the connection, for both. For the thread that receives.
  void cut(const std::string& why);

  // For one thread. The next message that has come whole; the next one. Throw: unavailable, naming the task, where it
  // is lost; data_loss for what is no message; deadline_exceeded.
  std::optional<Incoming> take();
  Incoming receive(Clock::time_point deadline = Clock::time_point::max());
  // Throws: unavailable where nothing has come for too long since `since`, and since it was last looked for.
  void check_silence(Clock::time_point since) const;

  // How who waits for several links at once hears of what has come, and of the end: by a call, from a thread that it
  // must not hold up, or, where it waits for bells, and the connection has one, by that.
  void on_event(std::function<void()> call, bool waits_for_bells = false);
  // For the thread that receives. Null: none, or one that it does not wait for.
  rpc::Bell* bell() const { return stream_ && waits_for_bells_ ? stream_->bell() : nullptr; }
  // Waits until what was sent has come.
  bool close(std::chrono::milliseconds limit) { return stream_ && stream_->close(limit); }

 private:
  void send_parts(std::span<const rpc::Payload> parts);
  std::optional<Incoming> add(const rpc::Message& piece);
  void listen(rpc::Stream& stream) const;
  [[noreturn]] void throw_lost(const std::string& why) const;

  const std::string name_;
  const std::chrono::milliseconds silence_;
  std::mutex sending_;                   // the pieces of a message follow each other; guards changes of the next two
  std::unique_ptr<rpc::Stream> stream_;  // the receiving thread changes it, and reads it without the lock; null: cut
  std::string cut_;                      // why
  std::function<void()> on_event_;
  bool waits_for_bells_ = false;
  Clock::time_point heard_ = Clock::now(), renewed_ = {};
  Bytes arriving_;
  uint64_t announced_ = 0;  // bytes of the message that is arriving
  bool is_arriving_ = false;
};

}  // namespace tutti::servers
