#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::files {

// What precedes the elements of a .npy file.
struct NpyHeader {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape = {};
  bool big_endian = false;
  bool fortran_order = false;  // the first axis varies fastest

  bool operator==(const NpyHeader&) const = default;
};

// The first bytes of every .npy file: magic, two bytes of version, and the smallest size of the header's length.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Reads the dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
// Throws, behind the text `file`: data_loss for any other text; unimplemented, by name, for what LibTorch has no dtype
// of.
NpyHeader parse_npy_header(std::string_view text, const std::string& file);

// The whole of it, magic included, for little-endian elements in row-major order.
// Throws: unimplemented, by name, for dtypes that numpy does not have.
std::string npy_header(c10::ScalarType dtype, const std::vector<int64_t>& shape);

}  // namespace tutti::files
