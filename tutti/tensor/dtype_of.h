#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "tutti/collectives/dtype.h"

namespace tutti {

// What collectives call a dtype of LibTorch's; nothing where they cannot sum it.
std::optional<Dtype> dtype_of(at::ScalarType type);

}  // namespace tutti
