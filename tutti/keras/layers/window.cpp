#include "tutti/keras/layers/window.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <vector>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

template <class Project>
std::vector<int64_t> list_of(const Windows& windows, Project project) {
  std::vector<int64_t> values;
  for (const Window& window : windows.axes) values.push_back(project(window));
  return values;
}

}  // namespace

int64_t num_windows(int64_t extent, const Window& window, Padding padding) {
  if (extent == kUnknown) return kUnknown;
  if (padding != Padding::valid) return (extent + window.stride - 1) / window.stride;
  return extent < window.span() ? 0 : (extent - window.span()) / window.stride + 1;
}

Margins margins(int64_t extent, const Window& window, Padding padding) {
  if (padding == Padding::valid) return {};
  if (padding == Padding::causal) return {.front = window.span() - 1};
  const int64_t last_start = (num_windows(extent, window, padding) - 1) * window.stride;
  const int64_t total = std::max<int64_t>(0, last_start + window.span() - extent);
  return {.front = total / 2, .back = total - total / 2};
}

Extents Windows::each(int64_t Window::*member) const {
  Extents values;
  if (axes.size() == 1) values.push_back(1);
  for (const Window& window : axes) values.push_back(window.*member);
  return values;
}

void check_windows(const LayerImpl& layer, const std::string& size_name, const Windows& windows, bool may_be_causal) {
  for (const Window& window : windows.axes)
    if (std::min({window.size, window.stride, window.dilation}) <= 0)
      layer.refuse(str(size_name, ' ', str_list(list_of(windows, [](const Window& w) { return w.size; })), ", strides ",
                       str_list(list_of(windows, [](const Window& w) { return w.stride; })), ", dilation_rate ",
                       str_list(list_of(windows, [](const Window& w) { return w.dilation; })),
                       "; all must be positive"));
  if (windows.padding == Padding::causal && !may_be_causal)
    layer.refuse("padding is causal; only Conv1D has it, choose valid or same");
}

void check_images(const LayerImpl& layer, at::IntArrayRef shape, size_t spatial_rank) {
  if (shape.size() == spatial_rank + 2) return;
  static constexpr std::array kAxes{"steps", "height, width", "depth, height, width"};
  const bool may_lack_channels = shape.size() == spatial_rank + 1;
  layer.refuse(str("the input has shape ", to_string(shape), "; it must be [batch, ", kAxes.at(spatial_rank - 1),
                   ", channels]", may_lack_channels ? "; x.unsqueeze(-1) has one channel" : ""));
}

Tensor channels_first(const Tensor& x) {
  if (x.dim() == 5) return x.permute({0, 4, 1, 2, 3});
  return (x.dim() == 3 ? x.unsqueeze(1) : x).permute({0, 3, 1, 2});
}

Tensor channels_last(const Tensor& images, size_t spatial_rank) {
  if (spatial_rank == 3) return images.permute({0, 2, 3, 4, 1});
  const Tensor x = images.permute({0, 2, 3, 1});
  return spatial_rank == 1 ? x.squeeze(1) : x;
}

PaddedImages pad_images(const Tensor& x, const Windows& windows, double value) {
  PaddedImages padded{.images = channels_first(x), .padding = {}};
  if (windows.axes.size() == 1) padded.padding.push_back(0);
  c10::SmallVector<int64_t, 6> pad;  // the last axis first
  for (size_t i = 0; i < windows.axes.size(); ++i) {
    const auto [front, back] = margins(x.size(static_cast<int64_t>(i) + 1), windows.axes[i], windows.padding);
    padded.padding.push_back(front);
    pad.insert(pad.begin(), {front, back});
    padded.extended |= front != back;
  }
  if (!padded.extended) return padded;
  padded.images = at::constant_pad_nd(padded.images, pad, value);
  std::ranges::fill(padded.padding, 0);
  return padded;
}

Shape windowed_shape(const LayerImpl& layer, const Shape& input_shape, const Windows& windows) {
  check_images(layer, input_shape, windows.axes.size());
  Shape shape = input_shape;
  for (size_t i = 0; i < windows.axes.size(); ++i) {
    shape[i + 1] = num_windows(input_shape[i + 1], windows.axes[i], windows.padding);
    if (shape[i + 1] == 0)
      layer.refuse(str("the input has shape ", to_string(input_shape), ", smaller than a window of ",
                       str_list(list_of(windows, [](const Window& window) { return window.span(); }))));
  }
  return shape;
}

}  // namespace tutti::keras::layers
