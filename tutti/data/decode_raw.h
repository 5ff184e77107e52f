#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// The numbers whose bytes, little-endian, the strings are: [shape of bytes, number of elements]. Throws:
// invalid_argument for strings of different lengths, or of a length that is no multiple of the dtype's. TF:
// tf.io.decode_raw.
Tensor decode_raw(const Strings& bytes, at::ScalarType dtype);

}  // namespace tutti::data
