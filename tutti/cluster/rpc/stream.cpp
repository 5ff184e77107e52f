#include "tutti/cluster/rpc/stream.h"

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

constexpr size_t kMaxInbox = 16;  // messages; the transport reads no more until some are taken

}  // namespace

void StreamState::attach(Wire* wire) {
  const std::lock_guard lock(mutex_);
  wire_ = wire;
  if (!is_writing_) write_next();
}

void StreamState::detach() {
  const std::lock_guard lock(mutex_);
  wire_ = nullptr;
}

void StreamState::notify() {
  changed_.notify_all();
  if (on_event_) on_event_();
}

bool StreamState::arrived(Message message) {
  const std::lock_guard lock(mutex_);
  if (!discards_) inbox_.push_back(std::move(message));
  is_paused_ = inbox_.size() >= kMaxInbox;
  const bool reads_on = !is_paused_;  // on_event may take messages, and have the wire read
  notify();
  return reads_on;
}

void StreamState::write_next() {
  if (!wire_ || end_) return;
  while (!outbox_.empty()) {
    is_writing_ = true;
    const Outgoing next = std::move(outbox_.front());
    outbox_.pop_front();
    if (!wire_->write(next)) return;
    is_writing_ = false;
  }
  if (is_finishing_ && !std::exchange(has_finished_, true)) wire_->finish();
}

void StreamState::written(bool is_whole) {
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  if (!is_whole) outbox_.clear();
  write_next();
}

bool StreamState::is_writing() {
  const std::lock_guard lock(mutex_);
  return is_writing_;
}

bool StreamState::has_listener() {
  const std::lock_guard lock(mutex_);
  return on_event_ || discards_;
}

bool StreamState::has_news() {
  const std::lock_guard lock(mutex_);
  return !inbox_.empty() || end_;
}

void StreamState::other_finished() {
  const std::lock_guard lock(mutex_);
  is_finishing_ = true;
  outbox_.clear();  // nobody reads it
  if (!is_writing_) write_next();
}

void StreamState::ended(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = why;
  outbox_.clear();
  notify();
}

Stream::~Stream() {
  const std::lock_guard lock(state_->mutex_);
  state_->on_event_ = nullptr;
  state_->discards_ = true;
  if (state_->wire_ && !state_->end_) state_->wire_->cancel();
  if (state_->wire_ && std::exchange(state_->is_paused_, false)) state_->wire_->read();
}

void Stream::send(Outgoing message) {
  const std::lock_guard lock(state_->mutex_);
  if (state_->end_ || state_->is_finishing_) return;
  state_->outbox_.push_back(std::move(message));
  if (!state_->is_writing_) state_->write_next();
  if (!state_->outbox_.empty()) state_->outbox_.back().keep();
}

void Stream::bring() const {
  if (source_ && !state_->has_listener()) source_->bring();
}

std::optional<Message> Stream::take() {
  bring();
  const std::lock_guard lock(state_->mutex_);
  if (state_->inbox_.empty()) return {};
  return take_first();
}

// With the lock, of some that have come.
Message Stream::take_first() {
  Message message = std::move(state_->inbox_.front());
  state_->inbox_.pop_front();
  if (state_->wire_ && std::exchange(state_->is_paused_, false)) state_->wire_->read();
  return message;
}

bool Stream::has_message() const {
  bring();
  const std::lock_guard lock(state_->mutex_);
  return !state_->inbox_.empty();
}

std::optional<std::string> Stream::end() const {
  const std::lock_guard lock(state_->mutex_);
  if (!state_->inbox_.empty()) return {};
  return state_->end_;
}

Message Stream::receive(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex_);
  const auto has_come = [&] { return !state_->inbox_.empty() || state_->end_; };
  const auto brings = [&] { return source_ && !state_->on_event_; };
  while (!has_come()) {
    if (std::chrono::steady_clock::now() >= deadline) throw Error(ErrorCode::deadline_exceeded, "nothing has come");
    if (!brings()) {
      state_->changed_.wait_until(lock, deadline, [&] { return has_come() || brings(); });
      continue;
    }
    lock.unlock();
    source_->wait(deadline);
    lock.lock();
  }
  if (state_->inbox_.empty()) throw Error(ErrorCode::unavailable, *state_->end_);
  return take_first();
}

void Stream::on_event(std::function<void()> call) {
  if (call) bring();
  {
    const std::lock_guard lock(state_->mutex_);
    state_->on_event_ = std::move(call);
    if (state_->on_event_ && (!state_->inbox_.empty() || state_->end_)) state_->on_event_();
    state_->changed_.notify_all();  // who waits, waits in another way
  }
  if (source_) source_->look();
}

bool Stream::close(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex_);
  state_->on_event_ = nullptr;
  state_->discards_ = state_->is_finishing_ = true;
  if (source_) {
    lock.unlock();
    source_->look();
    lock.lock();
  }
  state_->inbox_.clear();
  if (state_->wire_ && std::exchange(state_->is_paused_, false)) state_->wire_->read();
  if (!state_->is_writing_) state_->write_next();
  return state_->changed_.wait_for(lock, limit, [&] { return state_->end_.has_value(); });
}

}  // namespace tutti::rpc
