#pragma once

#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"

namespace tutti::keras {

// Images whose pixel (column, row) is the one at (x, y) of those given, which may lie between pixels and outside.
// Shapes: images [batch, height, width, channels] of a floating-point dtype, which is kept; x, y float32 [batch,
//   height, width], or [1, height, width].
// Grad: flows to the images.
Tensor map_pixels(const Tensor& images, const Tensor& x, const Tensor& y, const AffineTransformOptions& options);

}  // namespace tutti::keras
