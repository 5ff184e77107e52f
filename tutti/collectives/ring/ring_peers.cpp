#include "tutti/collectives/ring/ring_peers.h"

#include <sched.h>

#include <algorithm>

#include "tutti/collectives/shared_memory/call_record.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kMaxTaken = 8;  // messages of one member that wait here; more wait in its stream
constexpr std::chrono::milliseconds kTimeToLeave(1000);

// Of members whose carrier tells nobody that something has come: they look so often, yield for so long between two
// looks, then sleep for a part of the time that they have waited.
constexpr int kLooks = 16;
constexpr std::chrono::microseconds kLooking(200), kShortestSleep(50), kLongestSleep(1000);
constexpr int kPartAsleep = 16;

// A stream that is damaged on its way may lose a message, and go on with the next one.
void check_number(const RingMessage& message, uint64_t expected) {
  if (message.number() != expected)
    throw Error(ErrorCode::data_loss, str("message ", message.number(), " came where ", expected, " was to come"));
}

}  // namespace

RingPeers::RingPeers(int rank, std::vector<std::unique_ptr<rpc::Stream>> streams, std::chrono::milliseconds timeout,
                     std::unique_ptr<RingCarrier> carrier)
    : rank_(rank), timeout_(timeout), carrier_(std::move(carrier)) {
  for (auto& stream : streams) peers_.push_back({.stream = std::move(stream)});
  for (Peer& each : peers_)
    if (each.stream)
      each.stream->on_event([this] {
        epoch_.advance();
        epoch_.wake();
      });
}

RingPeers::~RingPeers() {
  const auto deadline = Clock::now() + kTimeToLeave;
  for (Peer& each : peers_)
    if (each.stream) each.stream->send(ring_goodbye(each.num_sent));
  for (Peer& each : peers_)
    if (each.stream)
      each.stream->close(std::chrono::ceil<std::chrono::milliseconds>(
          std::max<Clock::duration>(deadline - Clock::now(), Clock::duration::zero())));
}

void RingPeers::begin(const Collective& call) {
  call_ = &call;
  for (Peer& each : peers_) each.came_to.reset();
  if (has_failed_) throw_failure(call.where);
}

void RingPeers::send(int index, const CallRecord* first, const rpc::Payload& payload, uint32_t checksum) {
  Peer& to = peer(index);
  rpc::Outgoing message = ring_message(first, to.num_sent++, payload, checksum);
  if (!carrier_) return to.stream->send(std::move(message));
  try {
    carrier_->send(index, message);
  } catch (const Error& error) {
    fail(Error(error.code(), str("rank ", rank_, " to rank ", index, ": ", error.what())));
    throw_failure(call_->where);
  }
}

RingMessage RingPeers::receive(int index) {
  Peer& from = peer(index);
  wait_for(index, [&] { return !from.inbox.empty(); });
  RingMessage message = std::move(from.inbox.front());
  from.inbox.pop_front();
  if (message.call()) from.came_to = message.call();
  return message;
}

void RingPeers::end() {
  for (int index = 0; carrier_ && index < size(); ++index)
    if (peer(index).stream) wait_for(index, [&] { return carrier_->has_sent(index); });
}

template <class Ready>
void RingPeers::wait_for(int index, Ready is_ready) {
  Peer& from = peer(index);
  const auto begin = Clock::now(), deadline = begin + timeout_;
  for (int looks = 0;; ++looks) {
    const uint32_t seen = epoch_.value();
    take_all();
    if (has_failed_) throw_failure(call_->where);
    if (is_ready()) return;
    const auto now = Clock::now();
    if (has_left(index)) {
      fail(loss(index, {}, *call_));
    } else if (const auto why = from.stream->end(); why && !from.left_behind) {
      if (from.stream->has_message()) continue;
      fail(loss(index, *why, *call_));
    } else if (now >= deadline) {
      fail_late(index);
    } else if (!carrier_ || looks >= kLooks) {
      rest(seen, now - begin, deadline - now);
    }
  }
}

// Whether a member has said goodbye and all that it sent before has come.
bool RingPeers::has_left(int index) {
  const Peer& from = peer(index);
  return from.left_behind && (!carrier_ || from.num_taken >= *from.left_behind);
}

void RingPeers::rest(uint32_t seen, Clock::duration waited, Clock::duration left) {
  if (!carrier_) {
    epoch_.wait_past(seen, std::chrono::nanoseconds(0), left);
  } else if (waited < kLooking) {
    sched_yield();
  } else {
    const auto sleep = std::clamp<Clock::duration>(waited / kPartAsleep, kShortestSleep, kLongestSleep);
    epoch_.wait_past(seen, std::chrono::nanoseconds(0), std::min(sleep, left));
  }
}

// A failure is seen as soon as it has come, whoever is waited for.
void RingPeers::take_all() {
  for (int index = 0; index < size(); ++index)
    if (peer(index).stream) take_from(index);
}

std::optional<rpc::Message> RingPeers::take_message(int index) {
  auto taken = peer(index).stream->take();
  if (!taken && carrier_) taken = carrier_->take(index);
  return taken;
}

void RingPeers::take_from(int index) {
  Peer& from = peer(index);
  try {
    while (from.inbox.size() < kMaxTaken) {
      auto taken = take_message(index);
      if (!taken) return;
      RingMessage message = RingMessage::parse(std::move(*taken));
      if (message.kind() == RingMessageKind::failure) {
        fail(message.error());
      } else if (message.kind() == RingMessageKind::goodbye) {
        from.left_behind = message.number();
      } else {
        check_number(message, from.num_taken++);
        from.inbox.push_back(std::move(message));
      }
    }
  } catch (const Error& error) {
    fail(Error(error.code(), str("rank ", index, " to rank ", rank_, ": ", error.what())));
  }
}

Error RingPeers::loss(int index, const std::string& why, const Collective& call) {
  const std::string how =
      has_left(index) ? std::string(" has left the group") : str(" is lost (", why, "), and has left the group");
  return Error(ErrorCode::unavailable, str("rank ", index, how, ", which others still wait for at ", to_string(call)),
               call.where);
}

std::optional<Error> RingPeers::obstacle_to(const Collective& call) {
  take_all();
  if (has_failed_) {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  for (int index = 0; index < size(); ++index) {
    Peer& each = peer(index);
    if (!each.stream || (is_between_two(call) && index != call.peer)) continue;
    if (has_left(index)) return loss(index, {}, call);
    if (const auto why = each.stream->end(); why && !each.left_behind && !each.stream->has_message())
      return loss(index, *why, call);
  }
  return {};
}

void RingPeers::fail_late(int index) {
  std::string others;
  for (int other = 0; other < size(); ++other) {
    Peer& each = peer(other);
    if (!each.stream || (is_between_two(*call_) && other != call_->peer)) continue;
    const CallRecord* record = each.came_to                                       ? &*each.came_to
                               : !each.inbox.empty() && each.inbox.front().call() ? &*each.inbox.front().call()
                                                                                  : nullptr;
    others += !record          ? str("; rank ", other, " has not come")
              : other == index ? str("; rank ", other, " has come to ", to_string(*record), " and does not go on")
                               : str("; rank ", other, " waits at ", to_string(*record));
  }
  fail(Error(ErrorCode::deadline_exceeded,
             str("rank ", rank_, " has waited for ", timeout_.count(), " ms at ", to_string(*call_), others),
             call_->where));
}

// Who hears of a failure tells all others: one that is cut off from its origin may be reached by another way.
void RingPeers::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    has_failed_ = true;
  }
  if (carrier_) carrier_->give_up();
  for (Peer& each : peers_)
    if (each.stream) each.stream->send(ring_failure(error));
  epoch_.advance();
  epoch_.wake();
}

void RingPeers::throw_failure(const std::source_location& where) {
  const Error error = [&] {
    const std::lock_guard lock(mutex_);
    return *failure_;
  }();
  throw Error(error.code(), error.what(), where);
}

}  // namespace tutti
