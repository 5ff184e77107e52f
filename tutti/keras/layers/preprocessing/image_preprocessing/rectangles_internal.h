#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_draws_internal.h"

namespace tutti::keras::layers {

// From where, to below where, on one axis of each image: float32 [batch].
struct Spans {
  Tensor begin, end;
};

// For each image a place at random for `fraction` [batch] of an axis.
Spans draw_span(RandomDraws& draws, int64_t extent, const Tensor& fraction);

struct Rectangles {
  Spans columns, rows;
};

// Which pixels are in the rectangle of their image: bool [batch, height, width, 1].
Tensor inside(const Rectangles& rectangles, int64_t height, int64_t width);

}  // namespace tutti::keras::layers
