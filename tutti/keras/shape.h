#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// The extents of a tensor, batch first; kUnknown where an extent is free (the batch, as a rule).
using Shape = std::vector<int64_t>;

inline constexpr int64_t kUnknown = -1;

// "(None, 28, 28, 1)", as Keras writes shapes.
std::string to_string(c10::IntArrayRef shape);

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors);

}  // namespace tutti::keras
