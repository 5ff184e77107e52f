#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"
#include "tutti/mesh/layout.h"

namespace tutti::dtensor {

// Whether a tensor lies on a mesh. TF: dtensor.is_dtensor.
bool is_dtensor(const Tensor& tensor);

// Throws: invalid_argument for a plain tensor. TF: dtensor.fetch_layout.
Layout fetch_layout(const Tensor& tensor);

// Throws: invalid_argument, with both layouts, for a tensor in another layout or on another mesh, or a plain one. TF:
// dtensor.check_layout.
void check_layout(const Tensor& tensor, const Layout& layout);

}  // namespace tutti::dtensor
