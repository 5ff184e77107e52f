#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

struct DecodeImageOptions {
  // 1 (grey), 3 (red, green, blue) or 4 (and alpha); 0: what the image has, which may be 2 (grey and alpha).
  int channels = 0;
  int64_t max_pixels = int64_t{1} << 28;  // an image that says it has more is refused before memory is taken
};

// The image in the bytes of a JPEG or PNG file: uint8 [height, width, channels]. PNGs of 16 bits lose the lower 8,
// palettes become colours, missing alpha is opaque. TF: tf.io.decode_image.
// Throws: invalid_argument for other formats, and for channels that are not listed; data_loss for damaged or truncated
// images, and for more than max_pixels. `name`: what errors call the image.
Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options = {}, const std::string& name = "");

}  // namespace tutti::data
