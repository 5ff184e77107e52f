#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::checkpoint {

struct IndexedTensor;

// The tensors of an index by their names. Refers to the tensors: they may be moved with their vector, not copied.
class TensorNames {
 public:
  TensorNames() = default;
  explicit TensorNames(const std::vector<IndexedTensor>& tensors);
  TensorNames(TensorNames&&) noexcept = default;
  TensorNames& operator=(TensorNames&&) noexcept = default;

  // Null if there is none of this name.
  const IndexedTensor* find(std::string_view name) const;
  bool has_one_that_starts_with(std::string_view beginning) const;
  // A name that several tensors have; null if there is none.
  const std::pmr::string* twice() const;

 private:
  struct Entry {
    uint64_t key;  // the bytes behind those that all names begin with
    const IndexedTensor* tensor;
  };
  uint64_t key_of(std::string_view name) const;

  size_t num_common_ = 0;       // bytes that all names begin with
  std::vector<Entry> entries_;  // in the order of the names
};

}  // namespace tutti::checkpoint
