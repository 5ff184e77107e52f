#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// valid: windows lie inside the input. same: the input is padded so that there are ceil(extent / stride) windows; an
// odd padding has its larger half at the end.
enum class Padding { valid, same };

using Size2D = std::array<int64_t, 2>;  // height, width

// How convolution and pooling slide over one axis.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;

  int64_t span() const { return (size - 1) * dilation + 1; }
};

// The number of windows on an axis of `extent`; kUnknown stays so, a window larger than the input gives 0 or less.
int64_t num_windows(int64_t extent, const Window& window, Padding padding);

// The padding in front of and behind an axis of `extent`.
struct Margins {
  int64_t front = 0;
  int64_t back = 0;
};
Margins margins(int64_t extent, const Window& window, Padding padding);

// How they slide over images.
struct Windows2D {
  Window rows;
  Window columns;
  Padding padding = Padding::valid;
};

// x [N, H, W, C] as LibTorch takes images: [N, C, H, W], without a copy. LibTorch pads both ends alike: equal margins
// are left to the operation as its `padding`, others are added as rows and columns of `value`.
struct PaddedImages {
  Tensor images;
  Size2D padding = {0, 0};
};
PaddedImages pad_images(const Tensor& x, const Windows2D& windows, double value);

// [N, H, W, C] as [N, H', W', C]. The layer refuses an input of another rank, or smaller than one window.
Shape windowed_shape(const LayerImpl& layer, const Shape& input_shape, const Windows2D& windows);

}  // namespace tutti::keras::layers
