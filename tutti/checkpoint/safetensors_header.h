#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace tutti::checkpoint {

// A tensor in a file of the safetensors format (github.com/huggingface/safetensors, "Format").
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype;  // as the file has it: complex tensors are pairs of real numbers there
  std::vector<int64_t> sizes;
  uint64_t begin = 0;  // bytes from the beginning of the data
  uint64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
  // The order of entries in a file.
  std::tuple<uint64_t, uint64_t, std::string_view> place() const { return {begin, end, name}; }
};

// The entry of a tensor whose bytes begin at `begin`. A complex one becomes pairs of real numbers, along a new last
// axis.
SafetensorsEntry safetensors_entry(std::string name, at::ScalarType dtype, c10::IntArrayRef sizes, uint64_t begin);

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // as they lie in the file, without a hole
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t data_begin = 0;                      // bytes of length and header: where the data begin in the file
  bool operator==(const SafetensorsHeader&) const = default;
};

inline constexpr uint64_t kSafetensorsLengthBytes = 8;               // before the header
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // as the reference implementation

// Length and header as a file has them, with spaces up to a multiple of 64 bytes. `entries` must be as they lie in the
// file; data_begin is not read.
// Throws: invalid_argument for a dtype that the format doesn't have, or a header above the limit.
std::string safetensors_header_text(const SafetensorsHeader& header);

// Where the data begin in a file of `file_bytes` bytes, by its first 8 bytes. Throws: data_loss where that is beyond
// the file or the limit.
uint64_t safetensors_data_begin(std::span<const std::byte> bytes, uint64_t file_bytes, const std::string& file);

// Reads the header of a file of `file_bytes` bytes that begins with `bytes`; `file` is its name for messages.
// Throws: data_loss for anything that the format does not allow: a header longer than the file or the limit, text that
// is not JSON, names used twice, holes, overlaps, a length that is not dtype times shape, a file that goes on or ends
// before; unimplemented for a dtype that LibTorch doesn't have. No memory is taken that the file's length doesn't
// justify.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_bytes,
                                           const std::string& file);

}  // namespace tutti::checkpoint
