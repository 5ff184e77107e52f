#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "tutti/core/tensor_fwd.h"

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

// LibTorch pads both ends alike: equal margins are left to the operation as its `padding`, others are added to x
// [N, C, H, W] as rows and columns of `value`.
struct PaddedImages {
  Tensor images;
  Size2D padding = {0, 0};
};
PaddedImages pad_images(const Tensor& x, const std::array<Margins, 2>& margins, double value);

}  // namespace tutti::keras::layers
