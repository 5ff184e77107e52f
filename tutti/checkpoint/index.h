#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/region.h"
#include "tutti/checkpoint/tensor_names.h"

namespace tutti::checkpoint {

inline constexpr const char* kIndexName = "index.json";
inline constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
// A shard has a CRC32C for each of its chunks; the last one may be shorter.
inline constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

constexpr uint64_t num_chunks(uint64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

// A safetensors file of a checkpoint.
struct IndexedFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t header_bytes = 0;   // where the data begin
  uint32_t header_crc32c = 0;  // of these bytes
  bool operator==(const IndexedFile&) const = default;
};

// A part of a tensor, as it lies in a file: row-major, little-endian.
struct IndexedShard {
  size_t file = 0;      // in Index::files
  uint64_t offset = 0;  // from the beginning of the file
  uint64_t bytes = 0;
  Region region;
  c10::SmallVector<uint32_t, 2> crc32c;  // of each chunk
  bool operator==(const IndexedShard&) const = default;
};

struct IndexedTensor {
  std::pmr::string name;
  at::ScalarType dtype;
  Region::Axes sizes;
  std::string layout;
  std::pmr::vector<IndexedShard> shards;
  bool operator==(const IndexedTensor&) const = default;
};

// Where names and shards lie that were read: of many small tensors, each in memory of its own costs as much as its
// bytes. Not assigned, since what lies in the memory would be left without it.
class IndexMemory {
 public:
  IndexMemory() = default;
  IndexMemory(IndexMemory&&) = default;
  IndexMemory& operator=(IndexMemory&&) = delete;
  ~IndexMemory() = default;

  // For one thread. Lives as long as this.
  std::pmr::memory_resource* add() { return &parts_.emplace_back(); }

 private:
  std::deque<std::pmr::monotonic_buffer_resource> parts_;
};

// What the file index.json of a checkpoint says (docs/checkpoint_format.md).
struct Index {
  IndexMemory memory = {};  // of `tensors`
  int64_t step = 0;
  std::map<std::string, Value> values;
  std::vector<IndexedFile> files;
  std::vector<IndexedTensor> tensors;  // in the order of saving
  TensorNames names;                   // theirs; parse_index() sets it
};

// "tensors-00003.safetensors"
std::string file_name(size_t number);
bool is_file_name(const std::string& name);
// What every index begins with, in any version of the format.
std::string_view index_beginning();

std::string index_text(const Index& index);
// `source` names the text in messages. What this returns is consistent: names are unique; shards are a grid of their
// tensor, and lie in their file one after the other without hole or overlap; each has as many CRCs as chunks.
// Throws: data_loss for anything else; unimplemented for a format version above kFormatVersion.
Index parse_index(std::string text, const std::string& source);

}  // namespace tutti::checkpoint
