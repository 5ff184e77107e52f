#include "tutti/files/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/sync.h"

namespace tutti::files {
namespace {

namespace fs = std::filesystem;

// A part is called "NAME.0123456789abcdef.part": random, as process numbers are not unique on a disk that is shared.
constexpr std::string_view kEnd = ".part";
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr size_t kDigits = 16;

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw Error(ErrorCode::unavailable,
              str("cannot write '", path.string(), "': ", std::generic_category().message(error)));
}

fs::path behind_links(const fs::path& path) {
  constexpr int kMaxLinks = 40;
  std::error_code error;
  fs::path place = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, error)); ++links) {
    if (links == kMaxLinks) cannot_write(path, ELOOP);
    place = folder_of(place) / fs::read_symlink(place, error);
  }
  return place;
}

std::string random_part(const fs::path& path) {
  std::random_device random;
  std::string name = path.string() + '.';
  for (size_t i = 0; i < kDigits; ++i) name += kHexadecimal[random() % kHexadecimal.size()];
  return name.append(kEnd);
}

bool is_part_of(const std::string& name, const std::string& of) {
  if (name.size() != of.size() + 1 + kDigits + kEnd.size() || !name.starts_with(of + '.') || !name.ends_with(kEnd))
    return false;
  return name.find_first_not_of(kHexadecimal, of.size() + 1) == name.size() - kEnd.size();
}

bool lock(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

// Those that nobody has locked. What cannot be removed stays.
void remove_abandoned_parts(const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator it(folder_of(path), error), end; !error && it != end; it.increment(error)) {
    if (!is_part_of(it->path().filename().string(), path.filename().string())) continue;
    const int descriptor = ::open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (lock(descriptor)) ::unlink(it->path().c_str());
    ::close(descriptor);
  }
}

// Whether the open file still has this name: somebody may have removed it before it was locked.
bool has_name(int descriptor, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

}  // namespace

NewFile::NewFile(const fs::path& path) : path_(behind_links(path)) {
  struct stat status {};
  const bool exists = ::lstat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) cannot_write(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    part_ = path_;
    return;
  }
  remove_abandoned_parts(path_);
  create();
  if (exists) ::fchmod(descriptor_, status.st_mode & 07777);
}

void NewFile::create() {
  while (true) {
    part_ = random_part(path_);
    descriptor_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) cannot_write(path_, errno);
    lock(descriptor_);
    if (has_name(descriptor_, part_)) return;
    ::close(descriptor_);
  }
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::unlink(part_.c_str());
  ::close(descriptor_);
}

void NewFile::finish() {
  if (descriptor_ < 0) return;
  if (::fsync(descriptor_) != 0 || ::rename(part_.c_str(), path_.c_str()) != 0) cannot_write(path_, errno);
  ::close(std::exchange(descriptor_, -1));
  sync_folder(folder_of(path_));
}

}  // namespace tutti::files
