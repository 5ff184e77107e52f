#include "tutti/collectives/shared_memory/group_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr uint64_t kMagic = 0x3130'7075'6f72'6774;  // "tgroup01": another layout of the structs gets another number
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // a file that shrank would kill who reads it

struct MemoryHeader {
  uint64_t magic;
  int64_t size;
  FailureRecord failure;
  MemberState members[kMaxMembers];
};

constexpr size_t rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
constexpr size_t kHeaderBytes = rounded(sizeof(MemoryHeader));

constexpr size_t meeting_head_bytes(int num_sides) {
  return rounded(sizeof(MeetingState) + static_cast<size_t>(num_sides) * sizeof(MeetingSide));
}
constexpr size_t all_bytes(int size) { return meeting_head_bytes(size) + 2 * static_cast<size_t>(size) * kAreaBytes; }
constexpr size_t kPairBytes = meeting_head_bytes(2) + 2 * kPairAreaBytes;
constexpr size_t total_bytes(int size) {
  return kHeaderBytes + all_bytes(size) + static_cast<size_t>(size) * static_cast<size_t>(size) * kPairBytes;
}

[[noreturn]] void throw_no_room(const char* what) {
  throw Error(ErrorCode::resource_exhausted, str("shared memory of a group: ", what, ": ", std::strerror(errno)));
}

[[noreturn]] void refuse_descriptor(int descriptor, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              str("file descriptor ", descriptor, " is not the shared memory of a group: ", what));
}

// The number of members, once it is sure that the file has all bytes of such a group and will keep them.
int checked_size(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse_descriptor(descriptor, std::strerror(errno));
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) refuse_descriptor(descriptor, "it is no sealed memory");
  uint64_t head[2] = {};
  if (pread(descriptor, head, sizeof head, 0) != sizeof head || head[0] != kMagic)
    refuse_descriptor(descriptor, "it does not begin as one of this version does");
  if (head[1] < 1 || head[1] > kMaxMembers ||
      static_cast<size_t>(status.st_size) != total_bytes(static_cast<int>(head[1])))
    refuse_descriptor(descriptor, str("it has ", status.st_size, " bytes and claims ", head[1], " members"));
  return static_cast<int>(head[1]);
}

Meeting meeting_at(std::byte* at, int num_sides, size_t area_bytes) {
  return {.state = reinterpret_cast<MeetingState*>(at),
          .sides = reinterpret_cast<MeetingSide*>(at + sizeof(MeetingState)),
          .areas = at + meeting_head_bytes(num_sides),
          .area_bytes = area_bytes,
          .num_sides = num_sides};
}

}  // namespace

FileDescriptor GroupMemory::create(int size) {
  if (size < 1 || size > kMaxMembers)
    throw Error(ErrorCode::invalid_argument,
                str("a group of processes on one host has 1 to ", kMaxMembers, " members, not ", size));
  FileDescriptor file(memfd_create("tutti-group", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw_no_room("memfd_create");
  const uint64_t head[2] = {kMagic, static_cast<uint64_t>(size)};
  if (ftruncate(file.number(), static_cast<off_t>(total_bytes(size))) != 0) throw_no_room("ftruncate");
  if (pwrite(file.number(), head, sizeof head, 0) != sizeof head) throw_no_room("pwrite");
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) throw_no_room("F_ADD_SEALS");
  return file;
}

GroupMemory::GroupMemory(int descriptor) : size_(checked_size(descriptor)) {
  void* mapped = mmap(nullptr, total_bytes(size_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) throw_no_room("mmap");
  data_ = static_cast<std::byte*>(mapped);
}

GroupMemory::~GroupMemory() { munmap(data_, total_bytes(size_)); }

FailureRecord& GroupMemory::failure() const { return reinterpret_cast<MemoryHeader*>(data_)->failure; }

MemberState& GroupMemory::member(int rank) const { return reinterpret_cast<MemoryHeader*>(data_)->members[rank]; }

Meeting GroupMemory::all() const { return meeting_at(data_ + kHeaderBytes, size_, kAreaBytes); }

Meeting GroupMemory::pair(int from, int to) const {
  const size_t index = static_cast<size_t>(from) * static_cast<size_t>(size_) + static_cast<size_t>(to);
  return meeting_at(data_ + kHeaderBytes + all_bytes(size_) + index * kPairBytes, 2, kPairAreaBytes);
}

}  // namespace tutti
