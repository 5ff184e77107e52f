#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// What is outside of an image "a b c d".
enum class FillMode {
  constant,  // k k k | a b c d | k k k
  nearest,   // a a a | a b c d | d d d
  reflect,   // c b a | a b c d | d c b
  wrap,      // b c d | a b c d | a b c
};

// How a value between pixels is made: it is that of the nearest one, or is weighted by the distances to the four
// around.
enum class Interpolation { nearest, bilinear };

struct AffineTransformOptions {
  Interpolation interpolation = Interpolation::bilinear;
  FillMode fill_mode = FillMode::constant;
  double fill_value = 0;  // of FillMode::constant
};

// Images whose pixel (x, y) is the one at (a0 x + a1 y + a2, b0 x + b1 y + b2) of those given.
// Shapes: images [batch, height, width, channels] of a floating-point dtype, which is kept; transforms [batch, 6] or
//   [1, 6], rows of (a0, a1, a2, b0, b1, b2).
// Grad: flows to the images. Throws: invalid_argument for other shapes or dtypes.
// TF: keras.ops.image.affine_transform, without perspective.
Tensor affine_transform(const Tensor& images, const Tensor& transforms, const AffineTransformOptions& options = {});

}  // namespace tutti::keras
