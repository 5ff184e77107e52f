#include "tutti/files/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

constexpr size_t kMaxBytes = size_t{2} << 30;
constexpr size_t kBlock = 64 * 1024;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), archive_(archive_read_new(), archive_read_free) {
    if (!std::filesystem::is_regular_file(path))
      throw Error(ErrorCode::not_found, str("read_archive: there is no file '", path.string(), "'"));
    archive_read_support_filter_all(archive_.get());
    archive_read_support_format_all(archive_.get());
    check(archive_read_open_filename(archive_.get(), path.c_str(), kBlock));
  }

  // The path of the next regular file; false at the end.
  bool next(std::string& path) {
    archive_entry* entry = nullptr;
    for (int status; (status = archive_read_next_header(archive_.get(), &entry)) != ARCHIVE_EOF;) {
      check(status);
      const char* name = archive_entry_pathname(entry);
      if (!name || archive_entry_filetype(entry) != AE_IFREG) continue;
      path = name;
      return true;
    }
    return false;
  }

  // The bytes of that file. Grows with what is there, whatever the header says.
  std::string bytes() {
    std::string bytes;
    for (size_t filled = 0;;) {
      bytes.resize(filled + kBlock);
      const la_ssize_t read = archive_read_data(archive_.get(), bytes.data() + filled, kBlock);
      if (read < 0) check(static_cast<int>(read));
      filled += static_cast<size_t>(std::max<la_ssize_t>(read, 0));
      if (read == 0) {
        bytes.resize(filled);
        bytes.shrink_to_fit();
        return bytes;
      }
      if ((total_ += static_cast<size_t>(read)) > kMaxBytes)
        throw Error(ErrorCode::data_loss, str("read_archive: '", path_.string(), "' holds more than 2 GB"));
    }
  }

 private:
  void check(int status) {
    if (status >= ARCHIVE_WARN) return;
    const char* reason = archive_error_string(archive_.get());
    throw Error(ErrorCode::data_loss,
                str("read_archive: '", path_.string(), "' cannot be read: ", reason ? reason : "no reason is known"));
  }

  std::filesystem::path path_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  size_t total_ = 0;
};

}  // namespace

void read_archive(const std::filesystem::path& archive, FunctionRef<bool(const std::string& path)> wanted,
                  FunctionRef<void(std::string path, std::string bytes)> visit) {
  Reader reader(archive);
  for (std::string path; reader.next(path);)
    if (wanted(path)) visit(path, reader.bytes());
}

}  // namespace tutti::files
