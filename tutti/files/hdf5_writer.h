#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::files {

// Writes tensors of any device and strides, which are gathered, as the datasets of an HDF5 file, by their paths
// ("layers/dense/vars/0"), and groups, which may be empty. Every HDF5 since 1.8 reads it. Equal tensors give equal
// bytes. The file appears when it is whole, and replaces one that is there; where a link is, what it leads to. Throws:
// unavailable if it cannot be written; unimplemented for bool, complex numbers and 8-bit floats; invalid_argument for
// a sparse tensor, a path with an empty or very long part, and one that leads through a dataset.
void write_hdf5(const std::filesystem::path& path, const std::map<std::string, Tensor>& datasets,
                const std::vector<std::string>& groups = {});

// The bytes of such a file, for a place in another one. Throws: as write_hdf5, from the constructor what can be known
// there.
class Hdf5Bytes {
 public:
  Hdf5Bytes(std::map<std::string, Tensor> datasets, const std::vector<std::string>& groups);
  ~Hdf5Bytes();
  Hdf5Bytes(const Hdf5Bytes&) = delete;
  Hdf5Bytes& operator=(const Hdf5Bytes&) = delete;

  uint64_t size() const;
  // Gives them from the first to the last. A tensor is gathered when its turn comes.
  void write(FunctionRef<void(std::string_view)> sink) const;

 private:
  struct Tree;
  std::unique_ptr<Tree> tree_;
};
void write_hdf5(const std::filesystem::path& path, const Hdf5Bytes& bytes);

}  // namespace tutti::files
