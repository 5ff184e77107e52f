#include "tutti/keras/layers/window.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {

int64_t num_windows(int64_t extent, const Window& window, Padding padding) {
  if (extent == kUnknown) return kUnknown;
  if (padding == Padding::same) return (extent + window.stride - 1) / window.stride;
  return extent < window.span() ? 0 : (extent - window.span()) / window.stride + 1;
}

Margins margins(int64_t extent, const Window& window, Padding padding) {
  if (padding == Padding::valid) return {};
  const int64_t last_start = (num_windows(extent, window, padding) - 1) * window.stride;
  const int64_t total = std::max<int64_t>(0, last_start + window.span() - extent);
  return {.front = total / 2, .back = total - total / 2};
}

PaddedImages pad_images(const Tensor& x, const Windows2D& windows, double value) {
  const Tensor images = x.permute({0, 3, 1, 2});
  const Margins rows = margins(x.size(1), windows.rows, windows.padding);
  const Margins columns = margins(x.size(2), windows.columns, windows.padding);
  if (rows.front == rows.back && columns.front == columns.back) return {images, {rows.front, columns.front}};
  return {at::constant_pad_nd(images, {columns.front, columns.back, rows.front, rows.back}, value)};
}

Shape windowed_shape(const LayerImpl& layer, const Shape& input_shape, const Windows2D& windows) {
  if (input_shape.size() != 4)
    layer.refuse(str("the input has shape ", to_string(input_shape), "; it must be [batch, height, width, channels]"));
  const int64_t height = num_windows(input_shape[1], windows.rows, windows.padding);
  const int64_t width = num_windows(input_shape[2], windows.columns, windows.padding);
  if (height == 0 || width == 0)
    layer.refuse(str("the input has shape ", to_string(input_shape), ", smaller than a window of ",
                     str_list(Size2D{windows.rows.span(), windows.columns.span()})));
  return {input_shape[0], height, width, input_shape[3]};
}

}  // namespace tutti::keras::layers
