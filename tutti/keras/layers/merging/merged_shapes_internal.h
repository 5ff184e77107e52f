#pragma once

#include <optional>

#include "tutti/keras/shape.h"

namespace tutti::keras::layers {

// The shape of an elementwise operation on inputs of these shapes [batch, ...]: axes are matched from the last, and a
// shape that lacks some has extents of 1 behind its batch. Nothing if they do not fit.
std::optional<Shape> merged_shape(const Shape& a, const Shape& b);

}  // namespace tutti::keras::layers
