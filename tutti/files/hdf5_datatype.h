#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace tutti::files {

// How HDF5 files name a dtype, of little-endian numbers: the message "datatype" of a dataset. bfloat16 is what h5py,
// and so Keras, makes of it: two bytes without a meaning, which an attribute tells. Throws: unimplemented for bool,
// complex numbers and 8-bit floats.
std::string hdf5_datatype(at::ScalarType dtype);

struct Hdf5Datatype {
  at::ScalarType dtype;
  bool is_big_endian;
};

// What a message names; nothing for another datatype than those above, in either order of bytes.
std::optional<Hdf5Datatype> parse_hdf5_datatype(std::string_view message);

}  // namespace tutti::files
