#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tutti/checkpoint/file_system.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::checkpoint {

// A tensor in a file of the safetensors format (github.com/huggingface/safetensors, "Format").
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype;  // as the file has it: complex tensors are pairs of real numbers there
  std::vector<int64_t> sizes;
  uint64_t begin = 0;  // bytes from the beginning of the data
  uint64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // as they lie in the file, without a hole
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t data_begin = 0;                      // bytes of length and header: where the data begin in the file
  bool operator==(const SafetensorsHeader&) const = default;
};

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // as the reference implementation

// Length and header as a file has them, with spaces up to a multiple of 64 bytes. `entries` must be as they lie in the
// file; data_begin is not read.
// Throws: invalid_argument for a dtype that the format doesn't have, or a header above the limit.
std::string safetensors_header_text(const SafetensorsHeader& header);

// Reads the header of a file of `file_bytes` bytes that begins with `bytes`; `file` is its name for messages.
// Throws: data_loss for anything that the format does not allow: a header longer than the file or the limit, text that
// is not JSON, names used twice, holes, overlaps, a length that is not dtype times shape, a file that goes on or ends
// before; unimplemented for a dtype that LibTorch doesn't have. No memory is taken that the file's length doesn't
// justify.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_bytes,
                                           const std::string& file);

// All tensors of a file, by name, in CPU memory. Throws: as parse_safetensors_header, and as FileSystem::open.
std::map<std::string, Tensor> load_safetensors(FileSystem& files, const std::filesystem::path& file);
// Replaces the file in one atomic step. Mesh tensors are gathered, complex ones become pairs of real numbers.
// Throws: invalid_argument for a name that is "__metadata__" or not UTF-8; unimplemented for a tensor that is not
// dense.
void save_safetensors(FileSystem& files, const std::filesystem::path& file,
                      const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace tutti::checkpoint
