#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "tutti/core/tensor_fwd.h"

// numpy's files of arrays: bool, integers, floats and complex numbers of every width that LibTorch has.
// Source: numpy.lib.format, versions 1.0, 2.0 and 3.0.
namespace tutti::files {

// The array in a .npy file: contiguous, on the CPU, whatever order of axes and bytes the file has.
// Throws: not_found; unavailable if it cannot be opened; data_loss if it is damaged, shorter or longer than its header
// says; unimplemented, by name, for a dtype that LibTorch has not.
Tensor read_npy(const std::filesystem::path& path);

// The arrays in a .npz file by their names, without ".npy", as libarchive has them: with a slash for a backslash,
// accents composed. Throws: the same; data_loss also for members that are no arrays, or of one name.
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path);

// Writes a dense tensor of any device and strides; a mesh tensor is gathered. The file appears when it is whole, and
// replaces one that is there; where a link is, what it leads to; into a device it is written. Throws: unavailable if it
// cannot be written; unimplemented for dtypes that numpy has not; invalid_argument for a sparse tensor.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

enum class NpzCompression {
  none,     // as numpy.savez
  deflate,  // as numpy.savez_compressed
};

// Writes tensors as members "name.npy". Throws: as write_npy; invalid_argument also for a name that is empty, longer
// than 65,531 bytes, no text in UTF-8, or has a backslash.
void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
               NpzCompression compression = NpzCompression::none);

}  // namespace tutti::files
