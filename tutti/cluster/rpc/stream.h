#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tutti/cluster/rpc/bell.h"
#include "tutti/cluster/rpc/message.h"

namespace tutti::rpc {

constexpr size_t kMaxMessageBytes = size_t{4} << 20;

// What carries the bytes of a stream: sockets, or memory that both processes share where they can, which are those of
// one host, one user and one table of processes.
enum class Carriage { sockets, shared_memory };

// What a transport does for a stream, when the stream asks for it. Nothing blocks.
class Wire {
 public:
  virtual void read() = 0;  // one message more
  // One at a time. Returns whether it is done; else StreamState::written tells. What is lent is there until it returns.
  virtual bool write(const Outgoing& message) = 0;
  virtual void finish() = 0;  // nothing more will be written
  virtual void cancel() = 0;

 protected:
  ~Wire() = default;
};

// What a stream has whose messages can be brought by who waits for them. That spares a change of threads; as long as
// somebody listens for events the transport brings them.
class Source {
 public:
  virtual ~Source() = default;
  virtual void bring() = 0;  // what has come
  // The same, and waits for it, or for the end. May return before either.
  virtual void wait(std::chrono::steady_clock::time_point deadline) = 0;
  virtual void look() = 0;  // whether somebody listens now
  // Rings whenever something may have come, or the end: who waits for several streams at once sleeps on those of all.
  virtual Bell& bell() = 0;
};

// What a stream's owner and its transport share. The transport calls the members below from threads of its own.
class StreamState {
 public:
  // From now until detach(): where to write. The transport reads first.
  void attach(Wire* wire);
  void detach();
  // Returns whether the transport shall read on; else it waits for Wire::read.
  bool arrived(Message message);
  void written(bool is_whole);
  bool is_writing();
  // Whether what comes, and the end, are waited for by nobody who would call the source.
  bool has_listener();
  // Whether something waits to be taken, or has ended.
  bool has_news();
  // The other side writes nothing more, and waits for this one to finish.
  void other_finished();
  void ended(const std::string& why);

 private:
  friend class Stream;
  void write_next();
  void notify();

  std::recursive_mutex mutex_;  // a transport may answer a call from within it
  std::condition_variable_any changed_;
  std::function<void()> on_event_;
  Wire* wire_ = nullptr;
  std::deque<Message> inbox_;
  std::deque<Outgoing> outbox_;
  bool is_paused_ = false, is_writing_ = false, is_finishing_ = false, has_finished_ = false, discards_ = false;
  std::optional<std::string> end_;
};

// Messages both ways between two processes, each way in order. What is sent goes out by itself; what comes waits to be
// taken, and when much of it waits, the other side's sending does. Members may be called from any thread.
class Stream {
 public:
  // `source` goes with the stream, once nothing will come any more.
  explicit Stream(std::shared_ptr<StreamState> state, std::shared_ptr<Source> source = {},
                  Carriage carriage = Carriage::sockets)
      : state_(std::move(state)), source_(std::move(source)), carriage_(carriage) {}
  ~Stream();  // at once: what is not sent yet may be lost
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Carriage carriage() const { return carriage_; }
  // That of its source, or null.
  Bell* bell() const { return source_ ? &source_->bell() : nullptr; }
  // Never blocks. Of a stream that has ended: does nothing.
  void send(Outgoing message);
  // The next message that has come.
  std::optional<Message> take();
  bool has_message() const;
  // Why nothing will come any more, once everything that came is taken.
  std::optional<std::string> end() const;
  // Waits for a message. Throws: deadline_exceeded, unavailable with the reason of the end.
  Message receive(std::chrono::steady_clock::time_point deadline);
  // Is called whenever a message has come, or the end: at once where something has come before, else from threads of
  // the transport, which it must not hold up, and never once another function or none was set. It must not destroy the
  // stream.
  void on_event(std::function<void()> call);
  // Sends what is to be sent, tells the other side that this was all, and waits until it knows. Returns whether it
  // does.
  bool close(std::chrono::milliseconds limit);

 private:
  void bring() const;
  Message take_first();

  const std::shared_ptr<StreamState> state_;
  const std::shared_ptr<Source> source_;  // or null. It locks the state, and is never called with that locked
  const Carriage carriage_;
};

}  // namespace tutti::rpc
