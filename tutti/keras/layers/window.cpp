#include "tutti/keras/layers/window.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "tutti/keras/shape.h"

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

PaddedImages pad_images(const Tensor& x, const std::array<Margins, 2>& margins, double value) {
  const auto& [rows, columns] = margins;
  if (rows.front == rows.back && columns.front == columns.back) return {x, {rows.front, columns.front}};
  return {at::constant_pad_nd(x, {columns.front, columns.back, rows.front, rows.back}, value)};
}

}  // namespace tutti::keras::layers
