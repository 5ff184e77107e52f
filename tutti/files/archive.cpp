#include "tutti/files/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{2} << 30;
constexpr size_t kBlock = 64 * 1024;

// While it lives, the calling thread's locale has UTF-8: libarchive loses names that the locale cannot write.
class Utf8Locale {
 public:
  Utf8Locale() : before_(utf8() ? uselocale(utf8()) : nullptr) {}
  ~Utf8Locale() {
    if (before_) uselocale(before_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);  // null where there is none
    return locale;
  }

  locale_t before_;
};

}  // namespace

ArchiveReader::ArchiveReader(const std::filesystem::path& path, ArchiveFormat format)
    : path_(path), archive_(archive_read_new(), archive_read_free) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str("read_archive: there is no file '", path.string(), "'"));
  if (format == ArchiveFormat::any) {
    archive_read_support_filter_all(archive_.get());
    archive_read_support_format_all(archive_.get());
  } else {
    archive_read_support_format_zip_seekable(archive_.get());  // needs the directory at the end: a part has none
  }
  if (archive_read_open_filename(archive_.get(), path.c_str(), kBlock) != ARCHIVE_OK) fail();
}

bool ArchiveReader::next(std::string& path) {
  const Utf8Locale locale;
  archive_entry* entry = nullptr;
  for (int status; (status = archive_read_next_header(archive_.get(), &entry)) != ARCHIVE_EOF;) {
    if (status < ARCHIVE_WARN) fail();
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* const name = archive_entry_pathname(entry);
    if (!name)
      throw Error(ErrorCode::data_loss, str("read_archive: '", path_.string(), "' has a file whose name is no text"));
    path = name;
    return true;
  }
  return false;
}

size_t ArchiveReader::read(void* to, size_t num_bytes) {
  auto* bytes = static_cast<char*>(to);
  size_t done = 0;
  while (done < num_bytes) {
    const la_ssize_t count = archive_read_data(archive_.get(), bytes + done, num_bytes - done);
    if (count == 0) break;
    if (count < 0) fail();  // also for a warning: such is a checksum that is wrong
    done += static_cast<size_t>(count);
  }
  return done;
}

void ArchiveReader::fail() const {
  const char* reason = archive_error_string(archive_.get());
  throw Error(ErrorCode::data_loss,
              str("read_archive: '", path_.string(), "' cannot be read: ", reason ? reason : "no reason is known"));
}

void read_archive(const std::filesystem::path& archive, FunctionRef<bool(const std::string& path)> wanted,
                  FunctionRef<void(std::string path, std::string bytes)> visit, ArchiveFormat format) {
  ArchiveReader reader(archive, format);
  // What lies in it as it is cannot be more than it has itself.
  const uint64_t max_bytes = std::max<uint64_t>(kMaxBytes, std::filesystem::file_size(archive));
  uint64_t total = 0;
  for (std::string path; reader.next(path);) {
    if (!wanted(path)) continue;
    std::string bytes;  // grows with what is there, whatever the archive says
    for (size_t read = kBlock, filled = 0; read == kBlock; filled += read) {
      bytes.resize(filled + kBlock);
      read = reader.read(bytes.data() + filled, kBlock);
      bytes.resize(filled + read);
      if ((total += read) > max_bytes)
        throw Error(ErrorCode::data_loss,
                    str("read_archive: '", archive.string(), "' holds more than 2 GB, and more than it has itself"));
    }
    bytes.shrink_to_fit();
    visit(path, std::move(bytes));
  }
}

}  // namespace tutti::files
