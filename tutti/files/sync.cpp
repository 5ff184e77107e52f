#include "tutti/files/sync.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

void sync(int descriptor, const std::filesystem::path& path) {
  if (::fsync(descriptor) == 0 || errno == EINVAL) return;  // EINVAL: what cannot be synced, as some shared disks
  throw Error(ErrorCode::unavailable, str("cannot write '", path.string(), "' to the disk: ",
                                          std::generic_category().message(errno), "; it may be lost"));
}

}  // namespace

void sync_file(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode)) return;
  sync(descriptor, path);
  std::error_code no_name_any_more;
  const std::filesystem::path behind_links = std::filesystem::canonical(path, no_name_any_more);
  if (!no_name_any_more) sync_folder(folder_of(behind_links));
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // one that may be written to and not read
  const struct Closed {
    int descriptor;
    ~Closed() { ::close(descriptor); }
  } closed{descriptor};
  sync(descriptor, folder);
}

}  // namespace tutti::files
