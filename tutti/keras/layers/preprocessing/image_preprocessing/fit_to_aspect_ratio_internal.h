#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// What lies in the middle of images [batch, height, width, channels]; `size` is at most theirs.
Tensor crop_center(const Tensor& images, const Size2D& size);

// The largest window in the middle with the ratio of height to width that `size` has.
Tensor crop_to_aspect_ratio(const Tensor& images, const Size2D& size);

// The same in this size, by bilinear interpolation; the dtype is kept. TF: tf.keras.utils.smart_resize
Tensor crop_and_resize(const Tensor& images, const Size2D& size);

// The images in the middle of the smallest ones with that ratio, the rest filled with `value`. As Keras does, with
// equal margins: an odd one is rounded down.
Tensor pad_to_aspect_ratio(const Tensor& images, const Size2D& size, double value);

}  // namespace tutti::keras::layers
