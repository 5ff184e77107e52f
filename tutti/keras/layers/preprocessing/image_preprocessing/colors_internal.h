#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras {

// Of images whose last axis is that of the colours, in floating point.

// Values of one range as those of another.
Tensor rescaled(const Tensor& images, const FactorRange& from, const FactorRange& to);

// Shape: [..., 3] or [..., 1] to [..., 1].
Tensor grey_of(const Tensor& images);

// Hue, saturation and value, each in [0, 1], of colours in [0, 1], and back. Shapes: [..., 3] to three of [...].
std::array<Tensor, 3> hsv_of(const Tensor& images);
Tensor image_of(const std::array<Tensor, 3>& hsv);

// One number for each image, to reckon with the images: [batch] to [batch, 1, 1, 1], of their dtype.
Tensor for_images(const Tensor& numbers, const Tensor& images);
// `changed` where the number of the image is below the probability's, else `images`.
Tensor where_drawn(const Tensor& numbers, const Tensor& probabilities, const Tensor& changed, const Tensor& images);

}  // namespace tutti::keras
