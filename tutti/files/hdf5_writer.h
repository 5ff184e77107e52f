#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::files {

// Writes tensors of any device and strides, which are gathered, as the datasets of an HDF5 file, by their paths
// ("layers/dense/vars/0"), and groups, which may be empty. Every HDF5 since 1.8 reads it. Equal tensors give equal
// bytes. The file appears when it is whole, and replaces one that is there; where a link is, what it leads to. Throws:
// unavailable if it cannot be written; unimplemented for bool, complex numbers and 8-bit floats; invalid_argument for
// a sparse tensor, a path with an empty or very long part, and one that leads through a dataset.
void write_hdf5(const std::filesystem::path& path, const std::map<std::string, Tensor>& datasets,
                const std::vector<std::string>& groups = {});

}  // namespace tutti::files
