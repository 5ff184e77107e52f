#include "tutti/collectives/shared_memory/meeting_place.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <ctime>

#include "tutti/collectives/shared_memory/call_record.h"
#include "tutti/core/str.h"
#include "tutti/device/spin.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
static_assert(std::endian::native == std::endian::little, "the futex is the lower half of the word");

// Beside a busy neighbour a member that spins for longer holds up the one it waits for: with 50 µs of it, small sums
// took a hundred times as long.
constexpr int kPauses = 64;
constexpr auto kYielding = 100us;
constexpr auto kSlice = 20ms;  // of sleep, between two looks at the others

uint32_t* futex_of(MeetingState& state) { return reinterpret_cast<uint32_t*>(&state.arrivals); }

void sleep_while(MeetingState& state, uint64_t seen) {
  const timespec slice{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kSlice).count()};
  state.num_sleeping.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, futex_of(state), FUTEX_WAIT, static_cast<uint32_t>(seen), &slice, nullptr, 0);
  state.num_sleeping.fetch_sub(1, std::memory_order_relaxed);
}

// A member that was killed asleep stays counted, which costs a system call and nothing else.
void wake(MeetingState& state) {
  if (state.num_sleeping.load(std::memory_order_seq_cst) > 0)
    syscall(SYS_futex, futex_of(state), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t arrivals_of(const Meeting& meeting, uint64_t round) {
  return 2 * round * static_cast<uint64_t>(meeting.num_sides);
}

}  // namespace

// An arrival is not counted once the meeting has failed, so a round that all have come to stays complete.
bool MeetingPlace::has_come(const Seat& seat, uint64_t round) const {
  return seat.meeting.state->arrivals.load(std::memory_order_acquire) >= arrivals_of(seat.meeting, round);
}

void MeetingPlace::meet(const Seat& seat, const Collective& call, uint64_t round, uint64_t buffer) {
  MeetingSide& own = seat.meeting.sides[seat.own];
  write_record(own.calls[round & 1], call, buffer);
  own.round.store(round, std::memory_order_release);
  std::atomic<uint64_t>& arrivals = seat.meeting.state->arrivals;
  uint64_t seen = arrivals.load(std::memory_order_relaxed);
  do
    if (seen & 1) throw_failure(call.where);
  while (!arrivals.compare_exchange_weak(seen, seen + 2, std::memory_order_seq_cst));
  if (seen + 2 == arrivals_of(seat.meeting, round)) return wake(*seat.meeting.state);
  wait(seat, call, round);
}

void MeetingPlace::wait(const Seat& seat, const Collective& call, uint64_t round) {
  for (int i = 0; i < kPauses; ++i) {
    if (has_come(seat, round)) return;
    pause_core();
  }
  const auto begin = SteadyClock::now();
  while (SteadyClock::now() - begin < kYielding) {
    if (has_come(seat, round)) return;
    sched_yield();
  }
  while (!has_come(seat, round)) {
    const bool has_failed = memory_.failure().state.load(std::memory_order_acquire) != FailureRecord::none ||
                            end_if_lost(seat, call) || end_if_late(seat, call, round, SteadyClock::now() - begin);
    if (has_failed) {
      if (close(seat, round)) throw_failure(call.where);
      return;  // all have come after all
    }
    const uint64_t seen = seat.meeting.state->arrivals.load(std::memory_order_seq_cst);
    if (seen & 1) throw_failure(call.where);
    if (seen < arrivals_of(seat.meeting, round)) sleep_while(*seat.meeting.state, seen);
  }
}

// Lets nobody come any more. Returns false, and does nothing, if all have come to the round.
bool MeetingPlace::close(const Seat& seat, uint64_t round) {
  std::atomic<uint64_t>& arrivals = seat.meeting.state->arrivals;
  uint64_t seen = arrivals.load(std::memory_order_acquire);
  do
    if (seen >= arrivals_of(seat.meeting, round)) return false;
  while (!(seen & 1) && !arrivals.compare_exchange_weak(seen, seen | 1, std::memory_order_seq_cst));
  wake(*seat.meeting.state);
  return true;
}

std::optional<std::string> MeetingPlace::loss(const Seat& seat, const Collective& call) {
  for (const int other : seat.ranks) {
    if (other == rank_) continue;
    const int pid = memory_.member(other).pid.load(std::memory_order_acquire);
    const bool has_left = memory_.member(other).has_left.load(std::memory_order_acquire) != 0;
    if (!has_left && !peers_.has_ended(other, pid)) continue;
    const std::string how = has_left ? "has left the group" : str("(process ", pid, ") has ended without a word");
    return str("rank ", other, ' ', how, "; others still wait for it, rank ", rank_, " at ", to_string(call));
  }
  return {};
}

bool MeetingPlace::end_if_lost(const Seat& seat, const Collective& call) {
  const auto text = loss(seat, call);
  if (text) record(ErrorCode::unavailable, *text);
  return text.has_value();
}

std::optional<Error> MeetingPlace::obstacle_to(const Seat& seat, const Collective& call) {
  if (memory_.failure().state.load(std::memory_order_acquire) != FailureRecord::none) return failure(call.where);
  if (const auto text = loss(seat, call)) return Error(ErrorCode::unavailable, *text, call.where);
  return {};
}

bool MeetingPlace::end_if_late(const Seat& seat, const Collective& call, uint64_t round,
                               std::chrono::nanoseconds waited) {
  if (waited < timeout_) return false;
  std::string others;
  for (int side = 0; side < seat.meeting.num_sides; ++side) {
    const int other = seat.ranks[static_cast<size_t>(side)];
    if (other == rank_) continue;
    const MeetingSide& its = seat.meeting.sides[side];
    others += str("; rank ", other);
    if (memory_.member(other).pid.load(std::memory_order_acquire) == 0)
      others += " has not joined the group";
    else if (its.round.load(std::memory_order_acquire) < round)
      others += " has not come";
    else
      others += str(" waits at ", to_string(its.calls[round & 1]));
  }
  record(ErrorCode::deadline_exceeded,
         str("rank ", rank_, " has waited for ", timeout_.count(), " ms at ", to_string(call), others));
  return true;
}

void MeetingPlace::record(ErrorCode code, const std::string& text) {
  FailureRecord& failure = memory_.failure();
  uint32_t none = FailureRecord::none;
  if (!failure.state.compare_exchange_strong(none, FailureRecord::being_written, std::memory_order_acquire)) return;
  failure.code = static_cast<uint32_t>(code);
  const size_t length = std::min(text.size(), sizeof failure.text - 1);
  std::memcpy(failure.text, text.data(), length);
  failure.text[length] = '\0';
  failure.state.store(FailureRecord::written, std::memory_order_release);
  wake(*memory_.all().state);
}

void MeetingPlace::throw_if_failed(const std::source_location& where) {
  if (memory_.failure().state.load(std::memory_order_acquire) != FailureRecord::none) throw_failure(where);
}

Error MeetingPlace::failure(const std::source_location& where) {
  FailureRecord& failure = memory_.failure();
  const auto begin = SteadyClock::now();
  while (failure.state.load(std::memory_order_acquire) != FailureRecord::written) {
    if (SteadyClock::now() - begin > 1s)
      return Error(ErrorCode::unavailable, "a member of the group ended while it wrote down why it had failed", where);
    sched_yield();
  }
  const bool is_known = failure.code <= static_cast<uint32_t>(ErrorCode::internal);
  return Error(is_known ? static_cast<ErrorCode>(failure.code) : ErrorCode::internal,
               std::string(failure.text, strnlen(failure.text, sizeof failure.text)), where);
}

}  // namespace tutti
