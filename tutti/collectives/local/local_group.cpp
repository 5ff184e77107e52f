#include "tutti/collectives/local/local_group.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "tutti/collectives/local/host_reduction.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/epoch.h"
#include "tutti/device/spin.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

bool agree(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.place == b.place && a.peer == b.peer &&
         a.divisor == b.divisor && std::string_view(a.name) == b.name;
}

// Whether a call cannot end without this other member.
bool needs(const Collective& call, int rank) { return !is_between_two(call) || call.peer == rank; }

bool agree_as_pair(const Collective& send, const Collective& receive) {
  return send.dtype == receive.dtype && send.count == receive.count && send.place == receive.place &&
         std::string_view(send.name) == receive.name;
}

const std::byte* part(const void* buffer, int index, size_t part_bytes) {
  return static_cast<const std::byte*>(buffer) + static_cast<size_t>(index) * part_bytes;
}
std::byte* part(void* buffer, int index, size_t part_bytes) {
  return static_cast<std::byte*>(buffer) + static_cast<size_t>(index) * part_bytes;
}

void copy(std::byte* to, const void* from, size_t num_bytes) {
  if (num_bytes > 0 && to != from) std::memcpy(to, from, num_bytes);
}

// What moves of each part.
size_t bytes_of_part(const Collective& call) {
  return call.place == BufferPlace::nowhere ? 0 : static_cast<size_t>(call.count) * size_of(call.dtype);
}

// Where the members of one group meet. A call is a round: all arrive, the last one compares; then each does its share
// of the work on everybody's buffers; then all leave, so that no buffer is read after its owner has returned. A round
// that has begun is finished: only arriving is interrupted by failures and the deadline, since the work after it ends
// by itself.
class LocalMeeting {
 public:
  LocalMeeting(int size, const LocalGroupOptions& options)
      : timeout_(options.timeout),
        spin_(spin_limit(size)),
        members_(static_cast<size_t>(size)),
        pairs_(members_.size() * members_.size()) {
    items_.reserve(members_.size());
    inputs_.reserve(pairs_.size());
    outputs_.reserve(pairs_.size());
  }

  void run(int rank, const Collective& call) {
    const uint64_t round = ++member(rank).round;
    arrive(rank, call, round);
    work(rank, call);
    leave(round);
  }

  void send_or_receive(int rank, const Collective& call);

  std::optional<Error> obstacle_to(const Collective& call) {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_;
    for (int rank = 0; rank < size(); ++rank)
      if (member(rank).is_lost && needs(call, rank)) return lost(rank, call);
    return {};
  }

  void fail(ErrorCode code, const std::string& message, const std::source_location& where = {}) {
    const std::lock_guard lock(mutex_);
    fail_locked(code, message, where);
  }

  void lose(int rank) {
    const std::lock_guard lock(mutex_);
    member(rank).is_lost = true;
    for (const Member& other : members_)
      if (other.waits_at && needs(*other.waits_at, rank)) return fail_lost(rank, *other.waits_at);
  }

 private:
  struct Member {
    uint64_t round = 0;                    // calls of this member; its own thread's
    const Collective* waits_at = nullptr;  // while it waits to begin
    const Collective* call = nullptr;      // of the round that goes on
    bool is_lost = false;
  };
  // A send or receive that waits for the other one.
  struct Waiting {
    const Collective* call = nullptr;
    bool is_taken = false, is_done = false;
  };

  int size() const { return static_cast<int>(members_.size()); }
  Member& member(int rank) { return members_[static_cast<size_t>(rank)]; }

  void throw_if_failed() const {
    if (failure_) throw Error(*failure_);
  }
  void fail_locked(ErrorCode code, const std::string& message, const std::source_location& where);
  static Error lost(int rank, const Collective& waiting) {
    return Error(ErrorCode::unavailable,
                 str("rank ", rank, " has left the group, which others still wait for at ", to_string(waiting)),
                 waiting.where);
  }
  void fail_lost(int rank, const Collective& waiting) {
    const Error error = lost(rank, waiting);
    fail_locked(error.code(), error.what(), error.location());
  }
  void fail_late(int rank, const Collective& call);
  void refuse_if_somebody_is_lost(const Collective& call);

  void arrive(int rank, const Collective& call, uint64_t round);
  void begin_round();
  void plan_sums();
  void work(int rank, const Collective& call);
  void leave(uint64_t round);

  // Waits until ready() holds under the lock. Returns false at the deadline.
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, std::optional<Clock::time_point> deadline, Ready ready);
  void notify(std::unique_lock<std::mutex>& lock) {
    epoch_.advance();
    lock.unlock();
    epoch_.wake();
  }

  const std::chrono::milliseconds timeout_;
  const std::chrono::nanoseconds spin_;
  Epoch epoch_;  // advances whenever somebody may go on
  std::mutex mutex_;
  std::vector<Member> members_;  // by rank
  std::vector<Waiting*> pairs_;  // by sender and receiver
  int num_arrived_ = 0, num_done_ = 0;
  uint64_t begun_ = 0, finished_ = 0;  // rounds
  std::optional<Error> failure_;       // once set, unchanged
  // Of the round that goes on; written by the member that arrives last, read by all until they leave.
  std::vector<ReductionItem> items_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::optional<HostReduction> reduction_;
};

template <class Ready>
bool LocalMeeting::wait(std::unique_lock<std::mutex>& lock, std::optional<Clock::time_point> deadline, Ready ready) {
  while (!ready()) {
    const uint32_t seen = epoch_.value();
    std::optional<std::chrono::nanoseconds> left;
    if (deadline) left = *deadline - Clock::now();
    if (left && left->count() <= 0) return false;
    lock.unlock();
    epoch_.wait_past(seen, spin_, left);
    lock.lock();
  }
  return true;
}

void LocalMeeting::fail_locked(ErrorCode code, const std::string& message, const std::source_location& where) {
  if (failure_) return;
  failure_.emplace(code, message, where);
  epoch_.advance();
  epoch_.wake();
}

void LocalMeeting::fail_late(int rank, const Collective& call) {
  std::string others;
  for (int other = 0; other < size(); ++other) {
    if (other == rank || !needs(call, other)) continue;
    const Collective* waits_at = member(other).waits_at;
    others +=
        waits_at ? str("; rank ", other, " waits at ", to_string(*waits_at)) : str("; rank ", other, " has not come");
  }
  fail_locked(ErrorCode::deadline_exceeded,
              str("rank ", rank, " has waited for ", timeout_.count(), " ms at ", to_string(call), others), call.where);
}

void LocalMeeting::refuse_if_somebody_is_lost(const Collective& call) {
  for (int other = 0; other < size(); ++other)
    if (member(other).is_lost && needs(call, other)) fail_lost(other, call);
  throw_if_failed();
}

void LocalMeeting::arrive(int rank, const Collective& call, uint64_t round) {
  const auto deadline = Clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  refuse_if_somebody_is_lost(call);
  member(rank).call = member(rank).waits_at = &call;
  const bool is_last = ++num_arrived_ == size();
  if (is_last)
    begin_round();
  else if (!wait(lock, deadline, [&] { return begun_ >= round || failure_; }))
    fail_late(rank, call);
  member(rank).waits_at = nullptr;
  if (begun_ < round) throw_if_failed();
  if (is_last) notify(lock);
}

// The last to arrive compares what all are about to do.
void LocalMeeting::begin_round() {
  const Collective& first = *member(0).call;
  for (int rank = 1; rank < size(); ++rank) {
    const Collective& other = *member(rank).call;
    if (agree(first, other)) continue;
    return fail_locked(ErrorCode::failed_precondition,
                       str("the members of a group must make the same calls in the same order; rank 0 makes ",
                           to_string(first), ", rank ", rank, " makes ", to_string(other)),
                       other.where);
  }
  for (Member& member : members_) member.waits_at = nullptr;
  num_arrived_ = 0;
  plan_sums();
  ++begun_;
}

void LocalMeeting::plan_sums() {
  const Collective& call = *member(0).call;
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  reduction_.reset();
  if (call.count == 0 || call.place == BufferPlace::nowhere || (call.kind != CollectiveKind::all_reduce && !scatters))
    return;
  items_.clear();
  inputs_.clear();
  outputs_.clear();
  for (const Member& member : members_) outputs_.push_back(member.call->output);
  const size_t part_bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  const int num_sums = scatters ? size() : 1;
  for (int sum = 0; sum < num_sums; ++sum) {
    for (const Member& member : members_) inputs_.push_back(part(member.call->input, sum, part_bytes));
    const std::span<void* const> all_outputs(outputs_);
    items_.push_back({.dtype = call.dtype,
                      .inputs = std::span(inputs_).last(members_.size()),
                      .outputs = scatters ? all_outputs.subspan(static_cast<size_t>(sum), 1) : all_outputs,
                      .count = call.count,
                      .divisor = call.divisor});
  }
  reduction_.emplace(items_);
}

void LocalMeeting::work(int rank, const Collective& call) {
  const size_t part_bytes = bytes_of_part(call);
  switch (call.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      if (reduction_) reduction_->run();
      break;
    case CollectiveKind::all_gather:
      for (int other = 0; other < size(); ++other)
        copy(part(call.output, other, part_bytes), member(other).call->input, part_bytes);
      break;
    case CollectiveKind::all_to_all:
      for (int other = 0; other < size(); ++other)
        copy(part(call.output, other, part_bytes), part(member(other).call->input, rank, part_bytes), part_bytes);
      break;
    case CollectiveKind::broadcast:
      copy(static_cast<std::byte*>(call.output), member(call.peer).call->input, part_bytes);
      break;
    case CollectiveKind::send:
    case CollectiveKind::receive:
    case CollectiveKind::barrier: break;
  }
}

void LocalMeeting::leave(uint64_t round) {
  std::unique_lock lock(mutex_);
  if (++num_done_ == size()) {
    num_done_ = 0;
    finished_ = round;
    return notify(lock);
  }
  wait(lock, {}, [&] { return finished_ >= round; });
}

void LocalMeeting::send_or_receive(int rank, const Collective& call) {
  const auto deadline = Clock::now() + timeout_;
  const bool sends = call.kind == CollectiveKind::send;
  const int from = sends ? rank : call.peer, to = sends ? call.peer : rank;
  std::unique_lock lock(mutex_);
  throw_if_failed();
  Waiting*& pair = pairs_[static_cast<size_t>(from * size() + to)];
  if (Waiting* other = std::exchange(pair, nullptr)) {
    const Collective &send = sends ? call : *other->call, &receive = sends ? *other->call : call;
    if (!agree_as_pair(send, receive))
      fail_locked(ErrorCode::failed_precondition,
                  str("rank ", from, " makes ", to_string(send), ", but rank ", to, " makes ", to_string(receive)),
                  call.where);
    throw_if_failed();
    other->is_taken = true;
    lock.unlock();
    copy(static_cast<std::byte*>(receive.output), send.input, bytes_of_part(call));
    lock.lock();
    other->is_done = true;
    return notify(lock);
  }
  refuse_if_somebody_is_lost(call);
  Waiting waiting{.call = &call};
  pair = &waiting;
  member(rank).waits_at = &call;
  const bool in_time = wait(lock, deadline, [&] { return waiting.is_taken || failure_; });
  if (waiting.is_taken) {
    member(rank).waits_at = nullptr;
    wait(lock, {}, [&] { return waiting.is_done; });
    return;
  }
  if (!in_time) fail_late(rank, call);
  member(rank).waits_at = nullptr;
  throw_if_failed();
}

class LocalGroup final : public Group {
 public:
  LocalGroup(int rank, int size, std::shared_ptr<LocalMeeting> meeting)
      : Group(rank, size), meeting_(std::move(meeting)) {}
  ~LocalGroup() override { meeting_->lose(rank()); }

  void abort(const std::string& cause) override {
    meeting_->fail(ErrorCode::cancelled, str("rank ", rank(), " has given up: ", cause));
  }
  std::optional<Error> obstacle_to(const Collective& call) override { return meeting_->obstacle_to(call); }

 protected:
  void execute(const Collective& call) override {
    if (is_between_two(call))
      meeting_->send_or_receive(rank(), call);
    else
      meeting_->run(rank(), call);
  }

 private:
  const std::shared_ptr<LocalMeeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> local_groups(int size, const LocalGroupOptions& options) {
  if (size < 1) throw Error(ErrorCode::invalid_argument, str("a group has at least one member, not ", size));
  const auto meeting = std::make_shared<LocalMeeting>(size, options);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank) groups.push_back(std::make_unique<LocalGroup>(rank, size, meeting));
  return groups;
}

}  // namespace tutti
