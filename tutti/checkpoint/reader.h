#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/file_system.h"
#include "tutti/checkpoint/index.h"

namespace tutti::checkpoint {

// Whether the folder is a checkpoint, be it a damaged one: whether its index begins as every index does.
bool is_checkpoint(FileSystem& files, const std::filesystem::path& folder);

// An open checkpoint. Nothing that it returns has not been compared with its CRC32C. Threads: any number at once.
class Reader {
 public:
  // Reads the index and opens the files. `files` must outlive the reader.
  // Throws: not_found where there is no such folder; data_loss for a missing or damaged index, a file that is missing
  // or has not its length, or a damaged header, naming the file, what it should be and what was found; unimplemented
  // for a checkpoint of a later format version.
  Reader(FileSystem& files, std::filesystem::path folder);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const std::filesystem::path& folder() const;
  int64_t step() const;
  const std::map<std::string, Value>& values() const;
  // In the order of saving.
  const std::vector<IndexedTensor>& tensors() const;
  // Null if there is none of this name.
  const IndexedTensor* find(std::string_view name) const;
  bool has_one_that_starts_with(std::string_view beginning_of_name) const;

  // Copies a region of the global tensor into `destination`, a plain tensor of the region's sizes and the stored dtype,
  // in place. Reads the parts of shards that it needs, in pieces of 1 MiB, on up to 8 threads. Memory beside the
  // destination: 1 MiB a thread; as much as the destination where its rows are not contiguous or not in CPU memory.
  // Throws: not_found for an unknown name; invalid_argument for a region that is not inside the tensor, other sizes or
  // dtype; data_loss for damage, naming the file, the tensor, the stored and the computed CRC; the
  // destination then holds anything.
  void read(std::string_view name, const Region& region, const Tensor& destination) const;
  // All of a tensor, into a plain or mesh tensor of any layout: each device's part is read by itself. In global view.
  void read(std::string_view name, const Tensor& destination) const;
  // The same for many tensors: small ones are read together. Of the destinations that need memory beside them, one at a
  // time or 64 MiB are read together. Nothing is changed before all were found to fit.
  struct Request {
    const IndexedTensor* tensor;  // of tensors()
    Tensor destination;
    std::optional<int64_t> first_row = {};  // given: the rows from here on, as many as the destination has
  };
  void read(std::span<const Request> requests) const;
  // All of a tensor, as a new plain one.
  Tensor read(std::string_view name) const;

  // Reads and checks every byte of every file.
  // Throws: data_loss as read() does.
  void verify() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace tutti::checkpoint
