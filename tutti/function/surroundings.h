#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/function/program.h"

namespace tutti {

// Whether everything that a program uses from outside is as it was recorded: captured tensors in their memory, mesh
// tensors in their components, gradients there or not.
bool surroundings_fit(const Program& program);
// Whether captured tensors and mesh tensors lie where they lay, whatever else is with them: a recording that this is
// not true of has nothing to come back to.
bool memory_fits(const Program& program);
// Whether variables have gradients where they had, as far as the program uses them.
bool gradients_fit(const Program& program);
// Whether a tensor has this geometry.
bool shows(const Tensor& tensor, const Geometry& geometry);
// Tells LibTorch that the program writes what it writes outside, so that a stale graph is found.
void bump_versions(const Program& program, at::ArrayRef<Tensor> arguments);

}  // namespace tutti
