#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tutti/data/compression.h"

struct z_stream_s;

namespace tutti::data {

// A file written from its beginning to its end, compressed on the way; what it held before is lost. Throws, from every
// member but the destructor: unavailable where the system refuses (what the file then holds is not whole), and
// failed_precondition after that, or after close().
class CompressedFileWriter {
 public:
  // level: 0 (none) to 9 (smallest), or -1 for zlib's own choice, 6.
  CompressedFileWriter(const std::filesystem::path& path, Compression compression, int level = -1);
  // Closes. An error is then a warning only.
  ~CompressedFileWriter();

  void write(const void* bytes, size_t num_bytes);
  // Gives all that was written to the system, so that a reader of the file sees it.
  void flush();
  // Ends the file, and returns when it is on the disk.
  void close();

 private:
  void check_open() const;
  void deflate_to_file(int flush);
  void write_file(const void* bytes, size_t num_bytes);
  [[noreturn]] void fail(const char* what);

  std::filesystem::path path_;
  std::FILE* file_;                     // null once closed or failed
  std::unique_ptr<char[]> output_;      // compressed bytes
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
};

}  // namespace tutti::data
