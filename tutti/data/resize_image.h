#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// How a pixel is made of those around it: of the nearest one, or by a kernel (bicubic: Keys's with a = -0.5) whose
// weights are scaled to the sum 1 where it reaches over the edge.
enum class ResizeMethod { nearest, bilinear, bicubic, lanczos3, lanczos5 };

struct ResizeOptions {
  ResizeMethod method = ResizeMethod::bilinear;
  bool antialias = false;  // widens the kernel where the image becomes smaller; nothing for `nearest`
};

// The image in another size, by interpolation between the centres of pixels.
// Shapes: image [height, width, channels] or [batch, height, width, channels], of any real dtype; result float32. The
// batch may be empty.
// Grad: flows to the image.
// TF: tf.image.resize. Throws: invalid_argument for another shape, or a size below 1.
Tensor resize_image(const Tensor& image, int64_t height, int64_t width, const ResizeOptions& options = {});

}  // namespace tutti::data
