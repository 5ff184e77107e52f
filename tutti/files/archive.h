#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tutti/core/function_ref.h"

struct archive;

namespace tutti::files {

enum class ArchiveFormat {
  any,  // tar, zip and the like, compressed or not
  zip,
};

// Reads an archive from its beginning to its end. Nothing is written to disk.
// Throws, from every member: not_found, unavailable (cannot be opened), data_loss for a damaged one.
class ArchiveReader {
 public:
  explicit ArchiveReader(const std::filesystem::path& path, ArchiveFormat format = ArchiveFormat::any);

  // Goes to the next regular file and puts its path in place; false at the end.
  bool next(std::string& path);

  // Reads up to num_bytes of that file; fewer only at its end, where its checksum has been checked.
  size_t read(void* to, size_t num_bytes);

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

// `visit` gets the path and the bytes of each regular file whose path is `wanted`.
// Throws: what ArchiveReader throws; data_loss too for files of more than 2 GB in all, if they are more than the
// archive.
void read_archive(const std::filesystem::path& archive, FunctionRef<bool(const std::string& path)> wanted,
                  FunctionRef<void(std::string path, std::string bytes)> visit,
                  ArchiveFormat format = ArchiveFormat::any);

}  // namespace tutti::files
