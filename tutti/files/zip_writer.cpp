#include "tutti/files/zip_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {

ZipWriter::ZipWriter(const std::filesystem::path& path, std::string label, ZipCompression compression)
    : label_(std::move(label)), archive_(archive_write_new(), archive_write_free) {
  archive_write_set_format_zip(archive_.get());
  archive_write_set_options(archive_.get(), "hdrcharset=UTF-8");
  compression == ZipCompression::none ? archive_write_zip_set_compression_store(archive_.get())
                                      : archive_write_zip_set_compression_deflate(archive_.get());
  check(archive_write_open_filename(archive_.get(), path.c_str()));
}

void ZipWriter::begin(const std::string& member, uint64_t num_bytes) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
  archive_entry_set_pathname_utf8(entry.get(), member.c_str());
  archive_entry_set_size(entry.get(), static_cast<int64_t>(num_bytes));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  check(archive_write_header(archive_.get(), entry.get()));
}

void ZipWriter::write(const void* from, size_t num_bytes) {
  const auto* bytes = static_cast<const char*>(from);
  for (size_t done = 0; done < num_bytes;) {
    const la_ssize_t count = archive_write_data(archive_.get(), bytes + done, num_bytes - done);
    if (count <= 0) check(ARCHIVE_FATAL);
    done += static_cast<size_t>(count);
  }
}

void ZipWriter::finish() { check(archive_write_close(archive_.get())); }

void ZipWriter::check(int status) {
  if (status >= ARCHIVE_WARN) return;
  const char* reason = archive_error_string(archive_.get());
  throw Error(ErrorCode::unavailable, str(label_, ": cannot be written: ", reason ? reason : "no reason is known"));
}

}  // namespace tutti::files
