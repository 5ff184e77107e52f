#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// The bytes of a PNG file. image: uint8 [height, width, channels], of 1 (grey), 2 (grey and alpha), 3 (red, green,
// blue) or 4 (and alpha). TF: tf.io.encode_png. Throws: invalid_argument for another dtype or shape, and for an image
// without pixels.
std::string encode_png(const Tensor& image);

}  // namespace tutti::data
