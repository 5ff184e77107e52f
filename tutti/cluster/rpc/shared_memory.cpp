#include "tutti/cluster/rpc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "tutti/cluster/rpc/proof.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

constexpr uint64_t kMagic = 0x3230'6b6e'696c'7474;                 // "ttlink02": another layout gets another number
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // a file that shrank would kill who reads it
constexpr int64_t kMaxNumber = std::numeric_limits<int>::max();

// Which memory this is, so that nobody takes another one for it.
struct Head {
  uint64_t magic;
  Digest key;
};
// What both ends write to beside the bytes of the rings, which follow in the file, each on pages of its own.
struct Control {
  Head head;
  Bell bells[2];
  struct {
    alignas(64) std::atomic<uint64_t> head;
    std::atomic<uint64_t> origin;
    alignas(64) std::atomic<uint64_t> tail;
    alignas(64) std::atomic<uint32_t> waits_for_room;
  } rings[2];
};
constexpr uint64_t kControlBytes = uint64_t{64} << 10;  // the largest pages
constexpr uint64_t kFileBytes = kControlBytes + 2 * SharedMemory::kRingBytes;
constexpr uint64_t kMappedBytes = kControlBytes + 4 * SharedMemory::kRingBytes;
static_assert(sizeof(Control) <= kControlBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

[[noreturn]] void throw_no_room(const char* what) {
  throw Error(ErrorCode::resource_exhausted, str("shared memory of a connection: ", what, ": ", std::strerror(errno)));
}

// The file that the process has open, if it is such memory.
FileDescriptor open_memory(const std::string& path, const std::string& key) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::failed_precondition, str(path, " is not the memory of a connection: ", why));
  };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode) || status.st_size != kFileBytes) refuse("it is another file");
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) refuse(std::strerror(errno));
  const int seals = fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) refuse("it is no sealed memory");
  Head head{};
  if (fstat(file.number(), &status) != 0 || status.st_size != kFileBytes ||
      pread(file.number(), &head, sizeof head, 0) != sizeof head || head.magic != kMagic ||
      std::memcmp(head.key.data(), key.data(), head.key.size()) != 0)
    refuse("it belongs to another one");
  return file;
}

}  // namespace

std::string place_of_process() {
  std::string system;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> system;
  char processes[64] = {};
  (void)!readlink("/proc/self/ns/pid", processes, sizeof processes - 1);
  return str(system, ' ', processes, ' ', geteuid());
}

SharedMemory::SharedMemory(FileDescriptor file, std::string key) : file_(std::move(file)), key_(std::move(key)) {
  void* const addresses = mmap(nullptr, kMappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) throw_no_room("mmap");
  data_ = static_cast<std::byte*>(addresses);
  std::byte* next = data_;
  const auto map = [&](uint64_t begin, uint64_t count) {
    void* const mapped =
        mmap(next, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.number(), static_cast<off_t>(begin));
    if (mapped == MAP_FAILED) {
      const int error = errno;
      munmap(data_, kMappedBytes);
      errno = error;
      throw_no_room("mmap");
    }
    next += count;
  };
  map(0, kControlBytes);
  for (const uint64_t ring : {kControlBytes, kControlBytes + kRingBytes})
    for (int times = 0; times < 2; ++times) map(ring, kRingBytes);
}

SharedMemory::~SharedMemory() { munmap(data_, kMappedBytes); }

std::unique_ptr<SharedMemory> SharedMemory::create() {
  const Head head{.magic = kMagic, .key = random_nonce()};
  FileDescriptor file(memfd_create("tutti-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw_no_room("memfd_create");
  if (ftruncate(file.number(), kFileBytes) != 0) throw_no_room("ftruncate");
  if (pwrite(file.number(), &head, sizeof head, 0) != sizeof head) throw_no_room("pwrite");
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) throw_no_room("F_ADD_SEALS");
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(std::move(file), {reinterpret_cast<const char*>(head.key.data()), head.key.size()}));
}

std::string SharedMemory::offer() const {
  ByteWriter writer;
  writer.text(place_of_process());
  writer.number(getpid());
  writer.number(file_.number());
  writer.text(key_);
  return {writer.bytes().begin(), writer.bytes().end()};
}

std::unique_ptr<SharedMemory> SharedMemory::open(const std::string& offer) {
  ByteReader reader({reinterpret_cast<const uint8_t*>(offer.data()), offer.size()}, "an offer of shared memory");
  const std::string place = reader.text();
  const int64_t process = reader.number_in(1, kMaxNumber), descriptor = reader.number_in(0, kMaxNumber);
  const std::string key = reader.text();
  reader.finish();
  if (key.size() != sizeof(Digest)) reader.damaged("its key is none");
  if (place != place_of_process()) return nullptr;
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(open_memory(str("/proc/", process, "/fd/", descriptor), key), key));
}

Bell& SharedMemory::bell(int end) const { return reinterpret_cast<Control*>(data_)->bells[end]; }

SharedMemory::Ring SharedMemory::ring_from(int end) const {
  auto& ring = reinterpret_cast<Control*>(data_)->rings[end];
  return {ring.head, ring.origin, ring.tail, ring.waits_for_room,
          data_ + kControlBytes + static_cast<uint64_t>(end) * 2 * kRingBytes};
}

}  // namespace tutti::rpc
