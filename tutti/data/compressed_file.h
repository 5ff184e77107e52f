#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tutti/data/compression.h"

struct z_stream_s;

namespace tutti::data {

// A file read from its beginning to its end, decompressed on the way. Gzip's may have several members, which are read
// as one. Throws, from every member: not_found, unavailable (cannot be opened or read), data_loss for damaged or
// truncated compression.
class CompressedFile {
 public:
  // Of a gzip file if it begins as one, else of a plain file.
  explicit CompressedFile(const std::filesystem::path& path);
  CompressedFile(const std::filesystem::path& path, Compression compression);
  ~CompressedFile();

  // Reads up to num_bytes; fewer only at the end of the file.
  size_t read(void* to, size_t num_bytes);

  // The same as text. It takes no more memory than what was there, and 64 MB, however much is asked for.
  std::string read_string(uint64_t num_bytes);

  // Whether nothing is left; the checksum of a compressed file has then been checked.
  bool at_end();

  // How many bytes of content were read. Going there takes no time in a plain file and reads what lies before in a
  // compressed one, where it must lie ahead. Throws: data_loss if the content ends before.
  uint64_t position() const { return position_; }
  void seek(uint64_t position);

  // A bound for the content that is left, from the size on disk: what asks for more cannot be true.
  uint64_t max_left() const { return max_bytes_ - std::min(position_, max_bytes_); }

 private:
  size_t copy_from_block(void* to, size_t num_bytes);
  size_t produce(void* to, size_t num_bytes);
  size_t inflate_to(void* to, unsigned num_bytes);
  bool begin_member();
  void pass_padding();
  size_t read_file(void* to, size_t num_bytes);

  std::filesystem::path path_;
  Compression compression_;
  std::ifstream file_;
  uint64_t max_bytes_;
  uint64_t position_ = 0;
  std::unique_ptr<char[]> block_;       // content not yet asked for
  size_t begin_ = 0, end_ = 0;          // of what is left in it
  std::unique_ptr<char[]> input_;       // compressed bytes
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool finished_ = false;               // the compressed data and its checksum were read
};

}  // namespace tutti::data
