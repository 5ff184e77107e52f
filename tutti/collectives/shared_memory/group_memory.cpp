#include "tutti/collectives/shared_memory/group_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr uint64_t kMagic = 0x3230'7075'6f72'6774;  // "tgroup02": another layout of the structs gets another number
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // a file that shrank would kill who reads it

constexpr uint64_t kRoomBytes = uint64_t{1} << 56;

// How a file begins, written by who creates it.
struct FileHead {
  uint64_t magic, size, room_bytes;
};

struct MemoryHeader {
  FileHead head;
  std::atomic<uint64_t> room_taken;
  FailureRecord failure;
  MemberState members[kMaxMembers];
};

constexpr size_t kHeaderBytes = GroupMemory::whole_pages(sizeof(MemoryHeader));

constexpr size_t meeting_head_bytes(int num_sides) {
  return GroupMemory::whole_pages(sizeof(MeetingState) + static_cast<size_t>(num_sides) * sizeof(MeetingSide));
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

// No more than the file only looks as large as.
uint64_t allowed_room_bytes() {
  rlimit largest_file{};
  return getrlimit(RLIMIT_FSIZE, &largest_file) == 0 && largest_file.rlim_cur / 2 < kRoomBytes ? 0 : kRoomBytes;
}

// How the file begins, once it is sure that it has all bytes of such a group and will keep them.
FileHead checked_head(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse_descriptor(descriptor, std::strerror(errno));
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) refuse_descriptor(descriptor, "it is no sealed memory");
  FileHead head{};
  if (pread(descriptor, &head, sizeof head, 0) != sizeof head || head.magic != kMagic)
    refuse_descriptor(descriptor, "it does not begin as one of this version does");
  if (head.size < 1 || head.size > kMaxMembers || head.room_bytes > kRoomBytes ||
      static_cast<size_t>(status.st_size) != total_bytes(static_cast<int>(head.size)) + head.room_bytes)
    refuse_descriptor(descriptor, str("it has ", status.st_size, " bytes and claims ", head.size, " members"));
  return head;
}

std::byte* mapped(const FileDescriptor& file, uint64_t place, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), static_cast<off_t>(place));
  if (data == MAP_FAILED) throw_no_room("mmap");
  return static_cast<std::byte*>(data);
}

MemoryHeader& header(std::byte* data) { return *reinterpret_cast<MemoryHeader*>(data); }

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
  const FileHead head{kMagic, static_cast<uint64_t>(size), allowed_room_bytes()};
  if (ftruncate(file.number(), static_cast<off_t>(total_bytes(size) + head.room_bytes)) != 0)
    throw_no_room("ftruncate");
  if (pwrite(file.number(), &head, sizeof head, 0) != sizeof head) throw_no_room("pwrite");
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) throw_no_room("F_ADD_SEALS");
  return file;
}

GroupMemory::GroupMemory(int descriptor) {
  const FileHead head = checked_head(descriptor);
  size_ = static_cast<int>(head.size);
  room_bytes_ = head.room_bytes;
  file_ = FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!file_) throw_no_room("F_DUPFD_CLOEXEC");
  data_ = mapped(file_, 0, total_bytes(size_));
}

GroupMemory::~GroupMemory() { munmap(data_, total_bytes(size_)); }

FailureRecord& GroupMemory::failure() const { return header(data_).failure; }

MemberState& GroupMemory::member(int rank) const { return header(data_).members[rank]; }

std::optional<uint64_t> GroupMemory::take_room(size_t bytes) {
  if (room_bytes_ == 0) return {};
  std::atomic<uint64_t>& taken = header(data_).room_taken;
  uint64_t begin = taken.load(std::memory_order_relaxed);
  do
    if (begin > room_bytes_ || bytes > room_bytes_ - begin)
      throw Error(ErrorCode::resource_exhausted,
                  str("shared memory of a group: ", bytes, " bytes behind ", begin, " of ", room_bytes_));
  while (!taken.compare_exchange_weak(begin, begin + bytes, std::memory_order_relaxed));
  return total_bytes(size_) + begin;
}

std::byte* GroupMemory::map(uint64_t place, size_t bytes) const {
  const uint64_t first = total_bytes(size_);
  if (place % kPageBytes != 0 || place < first || place - first > room_bytes_ || bytes > room_bytes_ - (place - first))
    throw Error(ErrorCode::data_loss,
                str("shared memory of a group: a member has ", bytes, " bytes at ", place, ", where no buffer is"));
  return mapped(file_, place, bytes);
}

Meeting GroupMemory::all() const { return meeting_at(data_ + kHeaderBytes, size_, kAreaBytes); }

Meeting GroupMemory::pair(int from, int to) const {
  const size_t index = static_cast<size_t>(from) * static_cast<size_t>(size_) + static_cast<size_t>(to);
  return meeting_at(data_ + kHeaderBytes + all_bytes(size_) + index * kPairBytes, 2, kPairAreaBytes);
}

}  // namespace tutti
