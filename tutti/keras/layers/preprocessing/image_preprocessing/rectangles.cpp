#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/rectangles_internal.h"

namespace tutti::keras::layers {
namespace {

// bool [batch, extent]
Tensor inside(const Spans& spans, int64_t extent) {
  const Tensor pixels = at::arange(extent, spans.begin.options());
  return (pixels >= spans.begin.unsqueeze(1)).logical_and(pixels < spans.end.unsqueeze(1));
}

}  // namespace

Spans draw_span(RandomDraws& draws, int64_t extent, const Tensor& fraction) {
  const Tensor length = fraction * extent, begin = draws.uniform({0, 1}) * (extent - length);
  return {begin, begin + length};
}

Tensor inside(const Rectangles& rectangles, int64_t height, int64_t width) {
  const Tensor columns = inside(rectangles.columns, width), rows = inside(rectangles.rows, height);
  return rows.reshape({-1, height, 1, 1}).logical_and(columns.reshape({-1, 1, width, 1}));
}

}  // namespace tutti::keras::layers
