#include "tutti/collectives/shared_memory/shared_memory_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tutti/collectives/local/reduce_kernel.h"
#include "tutti/collectives/shared_memory/call_record.h"
#include "tutti/collectives/shared_memory/meeting_place.h"
#include "tutti/collectives/shared_memory/shared_buffers.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kLineBytes = 64;  // of caches: of each, one member sums all

void copy_bytes(void* to, const void* from, size_t num_bytes) {
  if (num_bytes > 0 && to != from) std::memcpy(to, from, num_bytes);
}

// How many elements move, of each part where a call has parts.
int64_t moved(const Collective& call) { return call.place == BufferPlace::nowhere ? 0 : call.count; }

// The elements of a call, of each part where it has parts, that one round moves.
struct Stretch {
  const Collective& call;
  int64_t begin, length;  // elements
  uint64_t round;

  size_t element() const { return size_of(call.dtype); }
  size_t bytes() const { return static_cast<size_t>(length) * element(); }
  const std::byte* input(int part = 0) const { return static_cast<const std::byte*>(call.input) + offset(part); }
  std::byte* output(int part = 0) const { return static_cast<std::byte*>(call.output) + offset(part); }

 private:
  size_t offset(int part) const { return static_cast<size_t>(part * moved(call) + begin) * element(); }
};

// A call is cut into stretches that fit the members' areas. For each, a member writes its input to its own area, meets
// the others, and reads from theirs what its output needs. A sum is taken by every member for itself, over all inputs
// in rank order: the bits are equal, and one meeting is enough.
//
// In shared buffers each member takes the sum of a part, straight from the buffers of all and into all of them, between
// two meetings: a line of another processor's cache is brought here once, to be read and written.
class SharedMemoryGroup final : public Group {
 public:
  SharedMemoryGroup(std::shared_ptr<GroupMemory> memory, int rank, const SharedMemoryGroupOptions& options)
      : Group(rank, memory->size()),
        memory_(std::move(memory)),
        buffers_(std::make_shared<SharedBuffers>(memory_)),
        place_(*memory_, rank, options.timeout),
        ranks_(static_cast<size_t>(size())),
        inputs_(ranks_.size()),
        outputs_(ranks_.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    int32_t nobody = 0;
    if (!memory_->member(rank).pid.compare_exchange_strong(nobody, getpid()))
      throw Error(ErrorCode::already_exists, str("process ", nobody, " is rank ", rank, " of ", size(),
                                                 " already; process ", getpid(), " cannot be it too"));
  }
  ~SharedMemoryGroup() override { memory_->member(rank()).has_left.store(1, std::memory_order_release); }

  std::shared_ptr<std::byte> allocate_shared(size_t bytes) override {
    return size() > 1 ? buffers_->allocate(bytes) : nullptr;
  }
  size_t shared_bytes(const void* data) const override { return buffers_->find(data).bytes; }
  void abort(const std::string& cause) override {
    place_.record(ErrorCode::cancelled, str("rank ", rank(), " has given up: ", cause));
  }
  std::optional<Error> obstacle_to(const Collective& call) override {
    if (!is_between_two(call)) return place_.obstacle_to(seat_of_all(), call);
    const int ranks[2] = {rank(), call.peer};
    return place_.obstacle_to({memory_->all(), ranks, 0}, call);
  }

 protected:
  void execute(const Collective& call) override {
    place_.throw_if_failed(call.where);
    if (is_between_two(call))
      run_between_two(call);
    else if (call.place == BufferPlace::shared)
      sum_in_buffers(call);
    else
      run_together(call);
  }

 private:
  MeetingPlace::Seat seat_of_all() const { return {memory_->all(), ranks_, rank()}; }

  template <class Round>
  static void for_each_stretch(const MeetingPlace::Seat& seat, const Collective& call, int num_parts, Round run);
  void run_together(const Collective& call);
  void run_between_two(const Collective& call);
  void put(const Stretch& stretch, std::byte* own) const;
  void take(const Stretch& stretch, const Meeting& all);
  void sum(const Stretch& stretch, const Meeting& all, int part);
  void sum_in_buffers(const Collective& call);
  void find_buffers(const Meeting& all, const Collective& call, uint64_t round);
  void check_all(const Meeting& all, const Collective& call, uint64_t round);
  void check_pair(const MeetingPlace::Seat& seat, const Collective& call, uint64_t round);

  const std::shared_ptr<GroupMemory> memory_;
  const std::shared_ptr<SharedBuffers> buffers_;
  MeetingPlace place_;
  std::vector<int> ranks_;           // 0, 1, …
  std::vector<const void*> inputs_;  // of a sum, by rank
  std::vector<void*> outputs_;       // of a sum in shared buffers
};

template <class Round>
void SharedMemoryGroup::for_each_stretch(const MeetingPlace::Seat& seat, const Collective& call, int num_parts,
                                         Round run) {
  const auto fits =
      static_cast<int64_t>(seat.meeting.area_bytes / size_of(call.dtype) / static_cast<size_t>(num_parts));
  int64_t begin = 0;
  do {
    run(Stretch{call, begin, std::min(fits, moved(call) - begin), MeetingPlace::next_round(seat)});
    begin += fits;
  } while (begin < moved(call));
}

void SharedMemoryGroup::run_together(const Collective& call) {
  const MeetingPlace::Seat seat = seat_of_all();
  const bool has_parts = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
  for_each_stretch(seat, call, has_parts ? size() : 1, [&](const Stretch& stretch) {
    if (size() > 1) put(stretch, seat.meeting.area(rank(), stretch.round));
    place_.meet(seat, call, stretch.round);
    if (stretch.begin == 0) check_all(seat.meeting, call, stretch.round);
    take(stretch, seat.meeting);
  });
}

void SharedMemoryGroup::put(const Stretch& stretch, std::byte* own) const {
  switch (stretch.call.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather: return copy_bytes(own, stretch.input(), stretch.bytes());
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      for (int part = 0; part < size(); ++part)
        if (part != rank())
          copy_bytes(own + static_cast<size_t>(part) * stretch.bytes(), stretch.input(part), stretch.bytes());
      return;
    case CollectiveKind::broadcast:
      if (stretch.call.peer == rank()) copy_bytes(own, stretch.input(), stretch.bytes());
      return;
    case CollectiveKind::send:
    case CollectiveKind::receive:
    case CollectiveKind::barrier: return;
  }
}

void SharedMemoryGroup::take(const Stretch& stretch, const Meeting& all) {
  const size_t bytes = stretch.bytes();
  const auto own_part = [&](int other) { return all.area(other, stretch.round) + static_cast<size_t>(rank()) * bytes; };
  switch (stretch.call.kind) {
    case CollectiveKind::all_reduce: return sum(stretch, all, 0);
    case CollectiveKind::reduce_scatter: return sum(stretch, all, rank());
    case CollectiveKind::all_gather:
      for (const int other : ranks_)
        copy_bytes(stretch.output(other), other == rank() ? stretch.input() : all.area(other, stretch.round), bytes);
      return;
    case CollectiveKind::all_to_all:
      for (const int other : ranks_)
        copy_bytes(stretch.output(other), other == rank() ? stretch.input(other) : own_part(other), bytes);
      return;
    case CollectiveKind::broadcast: {
      const int root = stretch.call.peer;
      return copy_bytes(stretch.output(), root == rank() ? stretch.input() : all.area(root, stretch.round), bytes);
    }
    case CollectiveKind::send:
    case CollectiveKind::receive:
    case CollectiveKind::barrier: return;
  }
}

// The sum of all members' part.
void SharedMemoryGroup::sum(const Stretch& stretch, const Meeting& all, int part) {
  if (stretch.length == 0) return;
  const size_t offset = static_cast<size_t>(part) * stretch.bytes();
  for (const int other : ranks_)
    inputs_[static_cast<size_t>(other)] =
        other == rank() ? stretch.input(part) : all.area(other, stretch.round) + offset;
  void* output = stretch.output();
  const ReductionItem item{.dtype = stretch.call.dtype,
                           .inputs = inputs_,
                           .outputs = {&output, 1},
                           .count = stretch.length,
                           .divisor = stretch.call.divisor};
  reduce_kernel(item.dtype)(item, 0, stretch.bytes());
}

void SharedMemoryGroup::sum_in_buffers(const Collective& call) {
  const MeetingPlace::Seat seat = seat_of_all();
  const uint64_t round = MeetingPlace::next_round(seat);
  place_.meet(seat, call, round, buffers_->find(call.output).place);
  check_all(seat.meeting, call, round);
  find_buffers(seat.meeting, call, round);
  const auto bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  const size_t part = (bytes / ranks_.size() / kLineBytes + 1) * kLineBytes;
  const size_t begin = std::min(bytes, static_cast<size_t>(rank()) * part), end = std::min(bytes, begin + part);
  const ReductionItem item{
      .dtype = call.dtype, .inputs = inputs_, .outputs = outputs_, .count = call.count, .divisor = call.divisor};
  if (begin < end) reduce_kernel(item.dtype)(item, begin, end);
  place_.meet(seat, call, MeetingPlace::next_round(seat));
}

// Those of all members, as this one sees them.
void SharedMemoryGroup::find_buffers(const Meeting& all, const Collective& call, uint64_t round) try {
  const auto bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  buffers_->expect_others(ranks_.size());
  for (const int other : ranks_) {
    const CallRecord& record = all.sides[other].calls[round & 1];
    void* const data = other == rank() ? call.output : buffers_->of_other(record.buffer, bytes);
    inputs_[static_cast<size_t>(other)] = outputs_[static_cast<size_t>(other)] = data;
  }
} catch (const Error& error) {
  place_.record(error.code(), str("rank ", rank(), ", at ", to_string(call), ": ", error.what()));
  place_.throw_failure(call.where);
}

// All members come to the same verdict, each for itself.
void SharedMemoryGroup::check_all(const Meeting& all, const Collective& call, uint64_t round) {
  const CallRecord& first = all.sides[0].calls[round & 1];
  for (const int other : ranks_) {
    const CallRecord& record = all.sides[other].calls[round & 1];
    if (agree(first, record)) continue;
    place_.record(ErrorCode::failed_precondition,
                  str("the members of a group must make the same calls in the same order; rank 0 makes ",
                      to_string(first), ", rank ", other, " makes ", to_string(record)));
    place_.throw_failure(call.where);
  }
}

void SharedMemoryGroup::run_between_two(const Collective& call) {
  const bool sends = call.kind == CollectiveKind::send;
  const int ranks[2] = {sends ? rank() : call.peer, sends ? call.peer : rank()};
  const MeetingPlace::Seat seat{memory_->pair(ranks[0], ranks[1]), ranks, sends ? 0 : 1};
  for_each_stretch(seat, call, 1, [&](const Stretch& stretch) {
    std::byte* area = seat.meeting.area(0, stretch.round);
    if (sends) copy_bytes(area, stretch.input(), stretch.bytes());
    place_.meet(seat, call, stretch.round);
    if (stretch.begin == 0) check_pair(seat, call, stretch.round);
    if (!sends) copy_bytes(stretch.output(), area, stretch.bytes());
  });
}

void SharedMemoryGroup::check_pair(const MeetingPlace::Seat& seat, const Collective& call, uint64_t round) {
  const CallRecord &send = seat.meeting.sides[0].calls[round & 1], &receive = seat.meeting.sides[1].calls[round & 1];
  if (agree_as_pair(send, receive)) return;
  place_.record(ErrorCode::failed_precondition, str("rank ", seat.ranks[0], " makes ", to_string(send), ", but rank ",
                                                    seat.ranks[1], " makes ", to_string(receive)));
  place_.throw_failure(call.where);
}

}  // namespace

FileDescriptor create_group_memory(int size) { return GroupMemory::create(size); }

std::unique_ptr<Group> shared_memory_group(int memory, int rank, const SharedMemoryGroupOptions& options) {
  auto mapped = std::make_shared<GroupMemory>(memory);
  if (rank < 0 || rank >= mapped->size())
    throw Error(ErrorCode::invalid_argument, str("a group of ", mapped->size(), " has no rank ", rank));
  return std::make_unique<SharedMemoryGroup>(std::move(mapped), rank, options);
}

}  // namespace tutti
