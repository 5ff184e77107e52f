#pragma once

#include <cstdint>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

// Which of its versions a tensor is, as LibTorch counts what is written to it; -1: nobody counts, of an inference
// tensor or an undefined one.
int64_t version_of(const Tensor& tensor);

}  // namespace tutti
