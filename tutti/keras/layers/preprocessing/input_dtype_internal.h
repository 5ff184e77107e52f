#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::layers {

// x itself if its dtype is floating point, else as float32.
inline Tensor floating(const Tensor& x) { return x.is_floating_point() ? x : x.to(at::kFloat); }

// x as int64. Throws: invalid_argument, in the layer's name, for a dtype that is not of integers.
inline Tensor integers(const Tensor& x, const std::string& layer) {
  if (!at::isIntegralType(x.scalar_type(), /*includeBool=*/false))
    throw Error(ErrorCode::invalid_argument, tutti::str(layer, ": the input has dtype ", at::toString(x.scalar_type()),
                                                        "; an integer dtype is required"));
  return x.to(at::kLong);
}

}  // namespace tutti::keras::layers
