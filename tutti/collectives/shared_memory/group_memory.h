#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "tutti/collectives/collective.h"
#include "tutti/core/file_descriptor.h"

// What the processes of a shared-memory group have in common. Whatever one reads here another one wrote: sizes are
// never taken from it, texts end at their buffer's end.
namespace tutti {

constexpr int kMaxMembers = 64;
constexpr size_t kAreaBytes = 1 << 18;       // of a member's data in one round of all
constexpr size_t kPairAreaBytes = 64 << 10;  // of a sender's data in one round of two

// What a member is about to do.
struct CallRecord {
  uint64_t name_hash;
  int64_t count;
  double divisor;
  int32_t peer;
  uint32_t line;
  CollectiveKind kind;
  Dtype dtype;
  BufferPlace place;
  uint64_t buffer;          // GroupMemory::map; of BufferPlace::shared
  char name[64], file[64];  // their first bytes, their last bytes
};

// One side of a meeting.
struct alignas(64) MeetingSide {
  std::atomic<uint64_t> round;  // the last one that this member has come to; written by it alone
  CallRecord calls[2];          // of even and of odd rounds
};

// Where all members, or two, come together, round after round.
struct alignas(64) MeetingState {
  std::atomic<uint64_t> arrivals;  // twice the arrivals of all rounds, plus 1 if it has failed: one word decides
  alignas(64) std::atomic<uint32_t> num_sleeping;
};

struct alignas(64) MemberState {
  std::atomic<int32_t> pid;  // 0: has not joined
  std::atomic<uint32_t> has_left;
};

// The first cause of the group's end.
struct alignas(64) FailureRecord {
  enum : uint32_t { none, being_written, written };
  std::atomic<uint32_t> state;
  uint32_t code;
  char text[2000];
};

// A meeting in the memory, and the data of its sides: of each, areas for even and for odd rounds.
struct Meeting {
  MeetingState* state;
  MeetingSide* sides;
  std::byte* areas;
  size_t area_bytes;
  int num_sides;

  std::byte* area(int side, uint64_t round) const {
    return areas + (2 * static_cast<size_t>(side) + (round & 1)) * area_bytes;
  }
};

// The memory, mapped: an anonymous file that is there as long as a process has it open or mapped. Nothing is left
// behind, whatever ends the processes. Pages that nobody touches take no room. Behind what all have mapped there is
// room for the buffers of each member, more than ever is given out: no place of it is given out twice.
class GroupMemory {
 public:
  // Throws: invalid_argument for a size out of 1 … kMaxMembers, resource_exhausted.
  static FileDescriptor create(int size);
  // Maps what create() made; the descriptor may be closed then. Throws: invalid_argument for a descriptor of anything
  // else, resource_exhausted.
  explicit GroupMemory(int descriptor);
  ~GroupMemory();
  GroupMemory(const GroupMemory&) = delete;
  GroupMemory& operator=(const GroupMemory&) = delete;

  int size() const { return size_; }
  FailureRecord& failure() const;
  MemberState& member(int rank) const;
  Meeting all() const;
  // Of sends from one member to another. The sender is side 0 and the only one that has data.
  Meeting pair(int from, int to) const;

  static constexpr size_t kPageBytes = 4096;
  // The bytes of the pages that so many bytes take, at least one. More than there can be stay more.
  static constexpr size_t whole_pages(size_t bytes) {
    constexpr size_t most = std::numeric_limits<size_t>::max() / kPageBytes;
    return std::clamp<size_t>(bytes / kPageBytes + (bytes % kPageBytes > 0 ? 1 : 0), 1, most) * kPageBytes;
  }
  // A place for so many whole pages' bytes that nobody has had; none where the system lets files have no such room.
  std::optional<uint64_t> take_room(size_t bytes);
  // The memory there, which may be what another member says that it has. Throws: data_loss for what cannot be such a
  // place, resource_exhausted.
  std::byte* map(uint64_t place, size_t bytes) const;

 private:
  FileDescriptor file_;
  int size_ = 0;
  uint64_t room_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace tutti
