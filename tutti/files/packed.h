#pragma once

#include "tutti/core/tensor_fwd.h"

namespace tutti::files {

// The values in host memory, one behind the other, as files have them; of a mesh tensor, gathered. `op` begins
// messages. Throws: invalid_argument for an undefined or sparse tensor.
Tensor packed(const Tensor& tensor, const char* op);

}  // namespace tutti::files
