#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tutti {

using Tensor = at::Tensor;

// The gradients of a scalar loss with respect to variables: a replica's own in replica view, global ones in global
// view. Nothing is accumulated into grad(). Undefined for a variable that the loss does not depend on. TF:
// GradientTape.gradient. Shapes: results[i] as variables[i]. Throws: what LibTorch's autograd throws.
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& variables);

}  // namespace tutti
