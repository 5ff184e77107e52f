#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::files {

// What a dataset of an HDF5 file is. One of no axes is a scalar.
struct Hdf5Form {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
};

// Reads arrays of numbers from an HDF5 file that was written as h5py does by itself and Keras leaves it: superblock and
// object headers of the first version, values in one piece. Nothing in the file is believed, and no link is followed
// out of it. Source: the HDF5 File Format Specification, version 3.0. HDF5's own library is not used: of files with a
// few damaged bits its version 1.10 reads memory that is not its own. For one thread at a time. Throws, from every
// member: data_loss for a damaged file; unimplemented, with the way out, for what another form of the format has.
class Hdf5Reader {
 public:
  // Throws: not_found; unavailable if it cannot be opened.
  explicit Hdf5Reader(const std::filesystem::path& path);
  // The bytes of a file; `name` is for messages.
  Hdf5Reader(std::string bytes, const std::string& name);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  // The paths of all datasets, "layers/dense/vars/0", sorted.
  std::vector<std::string> datasets() const;

  // Throws: unimplemented for elements other than integers, bfloat16 and IEEE's floats; invalid_argument for a path
  // that the file lacks.
  Hdf5Form form(const std::string& path) const;

  // Whether there is a group of this path; "" is the file's root.
  bool has_group(const std::string& path) const;

  // The texts that an attribute of a group has; nothing if there is none of this name. Throws: invalid_argument for a
  // group that the file lacks; unimplemented for an attribute of something else.
  std::optional<std::vector<std::string>> texts(const std::string& group, const std::string& attribute) const;

  // Its values, contiguous, on the CPU; they are in the file, so memory is not above its size. Throws: as form().
  Tensor read(const std::string& path) const;

 private:
  class File;
  std::unique_ptr<File> file_;
};

}  // namespace tutti::files
