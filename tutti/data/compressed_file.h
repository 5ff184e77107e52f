#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

struct z_stream_s;

namespace tutti::data {

// A file read from its beginning to its end, decompressed on the way if it begins as gzip does.
// Throws, from every member: not_found, unavailable (cannot be opened), data_loss for damaged or truncated compression.
class CompressedFile {
 public:
  explicit CompressedFile(const std::filesystem::path& path);
  ~CompressedFile();

  // Reads up to num_bytes; fewer only at the end of the file.
  size_t read(void* to, size_t num_bytes);

  // Whether nothing is left; the checksum of a compressed file has then been checked.
  bool at_end();

  // A bound for the decompressed size, from the size on disk: what asks for more cannot be true.
  uint64_t max_bytes() const { return max_bytes_; }

 private:
  size_t inflate_to(void* to, unsigned num_bytes);

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t max_bytes_;
  std::vector<char> input_;             // compressed bytes
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool finished_ = false;               // the compressed data and its checksum were read
};

}  // namespace tutti::data
