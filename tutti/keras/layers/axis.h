#pragma once

#include <vector>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// An axis of the input, negative from the last, as a number in [0, rank). The layer refuses one that `shape` lacks.
int64_t axis_of(const LayerImpl& layer, int64_t axis, at::IntArrayRef shape);

// Several, in ascending order. The layer refuses one that is named twice, and an empty list.
std::vector<int64_t> axes_of(const LayerImpl& layer, at::IntArrayRef axes, at::IntArrayRef shape);

// `shape` at these axes, and 1 at all others.
Shape broadcast_shape(at::IntArrayRef axes, at::IntArrayRef shape);

}  // namespace tutti::keras::layers
