#pragma once

#include <chrono>
#include <optional>
#include <source_location>
#include <span>
#include <string>

#include "tutti/collectives/shared_memory/group_memory.h"
#include "tutti/collectives/shared_memory/peer_watch.h"
#include "tutti/core/error.h"

namespace tutti {

// How one member of a group in shared memory meets the others: it comes to a round and waits until all have come. This
// is all the waiting there is. Each wait ends when all have come, when one of them is lost, when a failure is recorded,
// or at the deadline.
//
// Between two rounds a member reads what others wrote before they came to the first one. So what belongs to a round may
// be overwritten for the round after the next: whoever comes to that one has come to the one between, behind the
// reading.
class MeetingPlace {
 public:
  MeetingPlace(GroupMemory& memory, int rank, std::chrono::milliseconds timeout)
      : memory_(memory), rank_(rank), timeout_(timeout), peers_(memory.size()) {}

  // One side of a meeting, and whose sides there are.
  struct Seat {
    Meeting meeting;
    std::span<const int> ranks;  // by side
    int own = 0;                 // side
  };

  // The number of the round that comes next for this member.
  static uint64_t next_round(const Seat& seat) {
    return seat.meeting.sides[seat.own].round.load(std::memory_order_relaxed) + 1;
  }
  // Comes to a round, behind whatever was written for it, and waits for the others. What they wrote can then be read.
  // `buffer`: as of CallRecord. Throws: the group's failure, found here or recorded before.
  void meet(const Seat& seat, const Collective& call, uint64_t round, uint64_t buffer = 0);

  // Records a failure, if it is the first, and wakes who waits.
  void record(ErrorCode code, const std::string& text);
  void throw_if_failed(const std::source_location& where);
  // What is known to keep the call from ending: the failure that was recorded, or a side that is lost or has left.
  std::optional<Error> obstacle_to(const Seat& seat, const Collective& call);
  [[noreturn]] void throw_failure(const std::source_location& where) { throw failure(where); }

 private:
  Error failure(const std::source_location& where);
  bool has_come(const Seat& seat, uint64_t round) const;
  void wait(const Seat& seat, const Collective& call, uint64_t round);
  std::optional<std::string> loss(const Seat& seat, const Collective& call);
  bool end_if_lost(const Seat& seat, const Collective& call);
  bool end_if_late(const Seat& seat, const Collective& call, uint64_t round, std::chrono::nanoseconds waited);
  bool close(const Seat& seat, uint64_t round);

  GroupMemory& memory_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
  PeerWatch peers_;
};

}  // namespace tutti
