#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <string>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// valid: windows lie inside the input. same: the input is padded so that there are ceil(extent / stride) windows; an
// odd padding has its larger half at the end. causal, of Conv1D: as many windows, but all padding is in front, so that
// no window sees what comes after its last element.
enum class Padding { valid, same, causal };

// One extent for each spatial axis: length; height, width; depth, height, width.
template <size_t Rank>
using Size = std::array<int64_t, Rank>;
using Size1D = Size<1>;
using Size2D = Size<2>;
using Size3D = Size<3>;

// The same extent for each axis.
template <size_t Rank>
constexpr Size<Rank> size_of_all(int64_t extent) {
  Size<Rank> size{};
  size.fill(extent);
  return size;
}

// How convolution and pooling slide over one axis.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;

  int64_t span() const { return (size - 1) * dilation + 1; }
};

// The number of windows on an axis of `extent`; kUnknown stays so, a window larger than the input gives 0 or less.
int64_t num_windows(int64_t extent, const Window& window, Padding padding);

// What lies in front of and behind an axis.
struct Margins {
  int64_t front = 0;
  int64_t back = 0;
};

// The padding of an axis of `extent`.
Margins margins(int64_t extent, const Window& window, Padding padding);

// One number for each axis of LibTorch's images.
using Extents = c10::SmallVector<int64_t, 3>;

// How they slide over all spatial axes.
struct Windows {
  c10::SmallVector<Window, 3> axes;
  Padding padding = Padding::valid;

  // As LibTorch takes them, see `channels_first`.
  Extents sizes() const { return each(&Window::size); }
  Extents strides() const { return each(&Window::stride); }
  Extents dilations() const { return each(&Window::dilation); }

 private:
  Extents each(int64_t Window::*member) const;
};

template <size_t Rank>
Windows make_windows(const Size<Rank>& sizes, const Size<Rank>& strides, Padding padding,
                     const Size<Rank>& dilations = size_of_all<Rank>(1)) {
  Windows windows{.axes = {}, .padding = padding};
  for (size_t axis = 0; axis < Rank; ++axis) windows.axes.push_back({sizes[axis], strides[axis], dilations[axis]});
  return windows;
}

// The layer refuses windows with a number that is not positive; `size_name` is what it calls their sizes. It refuses
// causal padding unless it may be.
void check_windows(const LayerImpl& layer, const std::string& size_name, const Windows& windows,
                   bool may_be_causal = false);

// The layer refuses a shape that is not [batch, spatial axes, channels].
void check_images(const LayerImpl& layer, at::IntArrayRef shape, size_t spatial_rank);

// x [N, spatial axes, C] as LibTorch takes images, without a copy: [N, C, spatial axes]; one axis is taken as images of
// height 1, whose channels-last kernels need no copy either. And back.
Tensor channels_first(const Tensor& x);
Tensor channels_last(const Tensor& images, size_t spatial_rank);

// x [N, spatial axes, C] as images with the padding that `windows` asks for. LibTorch pads both ends alike: equal
// margins are left to the operation as its `padding`, others are added, filled with `value`.
struct PaddedImages {
  Tensor images;
  Extents padding;
  bool extended = false;  // by margins
};
PaddedImages pad_images(const Tensor& x, const Windows& windows, double value);

// [N, spatial axes, C] with the number of windows on each axis. The layer refuses an input of another rank, or smaller
// than one window.
Shape windowed_shape(const LayerImpl& layer, const Shape& input_shape, const Windows& windows);

}  // namespace tutti::keras::layers
