#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras {

// The mean around each pixel of an image with zeros around it, weighted by two bell curves of these widths, one along
// the height and one along the width. Shapes: images [batch, height, width, channels] in floating point; kernel_size
// odd. Keras: keras.ops.image.gaussian_blur.
Tensor gaussian_blur(const Tensor& images, const layers::Size2D& kernel_size, const std::array<double, 2>& sigma);

// Each channel of images with zeros around them, weighted by a kernel [rows, columns] of odd extents.
Tensor weighted_around(const Tensor& images, const Tensor& kernel);

}  // namespace tutti::keras
