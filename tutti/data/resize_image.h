#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// The image in another size, by bilinear interpolation between the centres of pixels, without antialiasing.
// Shapes: image [height, width, channels] or [batch, height, width, channels], of any real dtype; result float32.
// TF: tf.image.resize. Throws: invalid_argument for another shape, or a size below 1.
Tensor resize_image(const Tensor& image, int64_t height, int64_t width);

}  // namespace tutti::data
