#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/checkpoint/file_system.h"
#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::checkpoint {

// Files of the safetensors format (github.com/huggingface/safetensors, "Format").

// A file whose header was read. Throws: as parse_safetensors_header() and FileSystem::open().
class SafetensorsFile {
 public:
  SafetensorsFile(FileSystem& files, const std::filesystem::path& file);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  uint64_t data_begin() const { return header_.data_begin; }  // where the entries' bytes are counted from
  // One of them, in CPU memory.
  Tensor read(const SafetensorsEntry& entry) const;

 private:
  std::unique_ptr<ReadableFile> file_;
  SafetensorsHeader header_;
};

// All tensors of a file, by name, in CPU memory. Throws: as parse_safetensors_header() and FileSystem::open().
std::map<std::string, Tensor> load_safetensors(FileSystem& files, const std::filesystem::path& file);
// Replaces the file in one atomic step, or the one that a link leads to. Mesh tensors are gathered, complex ones become
// pairs of real numbers. Throws: invalid_argument for a name that is "__metadata__" or not UTF-8; unimplemented for a
// tensor that is not dense.
void save_safetensors(FileSystem& files, const std::filesystem::path& file,
                      const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace tutti::checkpoint
