#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

struct archive;

namespace tutti::files {

enum class ZipCompression { none, deflate };

// Writes a zip file, one member behind the other. It is whole after finish(). Throws, from every member: unavailable if
// it cannot be written.
class ZipWriter {
 public:
  // `label` begins messages: "write_npz: 'a.npz'".
  ZipWriter(const std::filesystem::path& path, std::string label, ZipCompression compression);

  // The next member, whose bytes write() gives: `num_bytes` of them in all.
  void begin(const std::string& member, uint64_t num_bytes);
  void write(const void* from, size_t num_bytes);
  void finish();

 private:
  void check(int status);

  std::string label_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

}  // namespace tutti::files
