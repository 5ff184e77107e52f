#pragma once

#include "tutti/core/tensor_fwd.h"

namespace tutti {

// Whether the tensor is a view of a mesh tensor that autograd makes again by the op that made it, and not by its place
// in memory.
bool is_remade_view(const at::Tensor& tensor);

// Has autograd remember of each view of pieces, and of views of those, the op that made it: strides of the whole mean
// nothing to a gradient's pieces. Of a whole value it does not, so that a view's gradient has its place in memory,
// whatever shape the value takes; nor does it of plain tensors.
void register_view_replay();

}  // namespace tutti
