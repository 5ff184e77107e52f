// The disks of this machine, by POSIX calls.
#include <c10/util/SmallVector.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "tutti/checkpoint/file_system.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT: return ErrorCode::not_found;
    case EEXIST:
    case ENOTEMPTY: return ErrorCode::already_exists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return ErrorCode::resource_exhausted;
    default: return ErrorCode::unavailable;
  }
}

[[noreturn]] void fail(const char* what, const fs::path& path, int error = errno) {
  throw Error(code_of(error), str("can't ", what, " '", path.string(), "': ", std::generic_category().message(error)));
}

class Descriptor {
 public:
  Descriptor(const char* what, const fs::path& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail(what, path);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(const fs::path& path) : descriptor_("open", path, O_RDONLY | O_NOFOLLOW) {}
  bool take() const { return ::flock(descriptor_.number(), LOCK_EX | LOCK_NB) == 0; }

 private:
  Descriptor descriptor_;  // ends the lock
};

class PosixWritableFile : public WritableFile {
 public:
  explicit PosixWritableFile(fs::path path)
      : path_(std::move(path)), descriptor_("create", path_, O_WRONLY | O_CREAT | O_EXCL) {
    ::flock(descriptor_.number(), LOCK_EX | LOCK_NB);  // tells others that it is not abandoned
  }

  void write(std::span<const std::byte> bytes) override {
    put(bytes);
    start_writeback();
  }

  void sync() override {
    if (::fsync(descriptor_.number()) != 0) fail("sync", path_);
  }

 protected:
  // Flags of open(), such as O_DIRECT. Returns whether the file takes them.
  bool set_flags(int flags) const { return ::fcntl(descriptor_.number(), F_SETFL, flags) == 0; }

  void put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_.number(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EINVAL && refuses_direct()) continue;
      if (written < 0) fail("write to", path_);
      bytes = bytes.subspan(static_cast<size_t>(written));
      size_ += written;
    }
  }

 private:
  // Whether the file was direct, which some file systems take and then do not do; it is not any more.
  bool refuses_direct() const {
#ifdef O_DIRECT
    const int flags = ::fcntl(descriptor_.number(), F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) && set_flags(flags & ~O_DIRECT);
#else
    return false;
#endif
  }

  // Lets the device work while the next bytes are being made, not only when sync() waits for it. A hint: an error would
  // come back from sync().
  void start_writeback() {
#ifdef __linux__
    constexpr int64_t kStep = int64_t{8} << 20;
    if (size_ - started_ < kStep) return;
    ::sync_file_range(descriptor_.number(), started_, size_ - started_, SYNC_FILE_RANGE_WRITE);
    started_ = size_;
#endif
  }

  fs::path path_;
  Descriptor descriptor_;
  int64_t size_ = 0;
  int64_t started_ = 0;  // bytes on their way to the device
};

#ifdef O_DIRECT
// Its bytes go from a buffer of our own to the device: nothing is allocated, copied and thrown away again in the
// system's cache, and what is in there stays. Where the file system cannot do that they go through the cache.
class DirectFile final : public PosixWritableFile {
 public:
  explicit DirectFile(fs::path path) : PosixWritableFile(std::move(path)), direct_(set_flags(O_DIRECT)) {
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(kBytes, kBytes)));
    if (!buffer_) throw std::bad_alloc();
    ::madvise(buffer_.get(), kBytes, MADV_HUGEPAGE);  // a hint: one page is quickly handed to the device
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kBytes - filled_);
      std::memcpy(buffer_.get() + filled_, bytes.data(), taken);
      bytes = bytes.subspan(taken);
      if ((filled_ += taken) < kBytes) break;
      put({buffer_.get(), std::exchange(filled_, 0)});
    }
  }

  void sync() override {
    if (direct_) set_flags(0);  // for the rest, which is no whole number of blocks
    direct_ = false;
    put({buffer_.get(), std::exchange(filled_, 0)});
    PosixWritableFile::sync();
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  static constexpr size_t kBytes = size_t{2} << 20;  // a huge page

  bool direct_;
  std::unique_ptr<std::byte, Free> buffer_;
  size_t filled_ = 0;
};
#endif

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(fs::path path) : path_(std::move(path)), descriptor_("open", path_, O_RDONLY) {
    struct stat status {};
    if (::fstat(descriptor_.number(), &status) != 0) fail("look at", path_);
    if (!S_ISREG(status.st_mode)) fail("read", path_, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    size_ = static_cast<uint64_t>(status.st_size);
  }

  uint64_t size() const override { return size_; }

  void read(uint64_t offset, std::span<std::byte> bytes) const override { read_parts(offset, std::span(&bytes, 1)); }

  void read_parts(uint64_t offset, std::span<const std::span<std::byte>> parts) const override {
    constexpr size_t kMaxAtOnce = 1024;  // IOV_MAX of Linux
    c10::SmallVector<iovec, 16> left;
    for (const std::span<std::byte> part : parts)
      if (!part.empty()) left.push_back({part.data(), part.size()});
    for (iovec* at = left.begin(); at != left.end();) {
      const auto count = static_cast<int>(std::min<ptrdiff_t>(kMaxAtOnce, left.end() - at));
      const ssize_t got = ::preadv(descriptor_.number(), at, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EIO)
        throw Error(ErrorCode::data_loss, str("the device cannot read '", path_.string(), "' at byte ", offset));
      if (got < 0) fail("read from", path_);
      if (got == 0) throw Error(ErrorCode::data_loss, str("'", path_.string(), "' ends at byte ", offset));
      offset += static_cast<uint64_t>(got);
      at = drop(at, static_cast<size_t>(got));
    }
  }

 private:
  // The first part that is not full when this many bytes have come, its beginning moved behind them.
  static iovec* drop(iovec* part, size_t bytes) {
    for (; bytes > 0; ++part) {
      const size_t taken = std::min(bytes, part->iov_len);
      bytes -= taken;
      if (taken == part->iov_len) continue;
      part->iov_base = static_cast<char*>(part->iov_base) + taken;
      part->iov_len -= taken;
      break;
    }
    return part;
  }

  fs::path path_;
  Descriptor descriptor_;
  uint64_t size_ = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const fs::path& file) override {
    return std::make_unique<PosixWritableFile>(file);
  }
#ifdef O_DIRECT
  std::unique_ptr<WritableFile> create_uncached(const fs::path& file) override {
    return std::make_unique<DirectFile>(file);
  }
#endif
  std::unique_ptr<ReadableFile> open(const fs::path& file) override {
    return std::make_unique<PosixReadableFile>(file);
  }
  void create_directory(const fs::path& directory) override {
    if (::mkdir(directory.c_str(), 0777) != 0) fail("create the directory", directory);
  }
  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(str("rename to '", to.string(), "' what is now").c_str(), from);
  }
  void exchange(const fs::path& one, const fs::path& other) override {
#ifdef RENAME_EXCHANGE
    if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS) fail(str("exchange for '", other.string(), "'").c_str(), one);
#endif
    throw Error(ErrorCode::unimplemented, str("can't exchange '", one.string(), "' for '", other.string(),
                                              "' in one step on this file system; remove the latter first"));
  }
  void sync_directory(const fs::path& directory) override {
    if (::access(directory.c_str(), R_OK) != 0 && errno == EACCES) return ::sync();  // it can't be opened to be synced
    const Descriptor descriptor("open the directory", directory, O_RDONLY | O_DIRECTORY);
    if (::fsync(descriptor.number()) != 0) fail("sync the directory", directory);
  }
  void remove(const fs::path& path) override {
    if (::remove(path.c_str()) != 0) fail("remove", path);
  }
  std::vector<DirectoryEntry> list(const fs::path& directory) const override {
    std::error_code error;
    std::vector<DirectoryEntry> entries;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;  // meanwhile
      entries.push_back({it->path().filename().string(), fs::is_directory(it->symlink_status(gone))});
    }
    if (error) fail("list the directory", directory, error.value());
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }
  bool exists(const fs::path& path) const override { return type_of(path) != 0; }
  bool is_directory(const fs::path& path) const override { return S_ISDIR(type_of(path)); }
  fs::path place_of(const fs::path& file) const override {
    constexpr int kMaxLinks = 40;
    fs::path place = file;
    for (int links = 0; S_ISLNK(type_of(place)); ++links) {
      std::error_code error;
      place = directory_of(place) / fs::read_symlink(place, error);
      if (error || links == kMaxLinks) fail("follow the link", file, error ? error.value() : ELOOP);
    }
    if (const mode_t type = type_of(place); type != 0 && !S_ISREG(type))
      throw Error(ErrorCode::invalid_argument,
                  str("can't write the file '", file.string(), "': ", S_ISDIR(type) ? "a folder" : "a device",
                      " is in its place; give another name"));
    return place;
  }
  std::unique_ptr<FileLock> try_lock(const fs::path& path) override {
    auto lock = std::make_unique<PosixLock>(path);
    if (lock->take()) return lock;
    if (errno != EWOULDBLOCK) fail("lock", path);
    return nullptr;
  }
  uint64_t available_bytes(const fs::path& directory) const override {
    struct statvfs status {};
    if (::statvfs(directory.c_str(), &status) != 0) fail("look at the disk of", directory);
    return uint64_t{status.f_bavail} * status.f_frsize;
  }

 private:
  // S_IFDIR and so on, of a link S_IFLNK; 0 where nothing is.
  static mode_t type_of(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) return status.st_mode & S_IFMT;
    if (errno != ENOENT && errno != ENOTDIR) fail("look at", path);
    return 0;
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace tutti::checkpoint
