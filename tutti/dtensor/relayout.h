#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/mesh/layout.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::dtensor {

// All of these are differentiable: the gradient goes back to where the value came from.

// The same value in another layout of the same mesh, kMatch keeping an axis as it is. Throws: invalid_argument for
// another mesh or rank, a mesh dimension that kMatch puts there twice, or a sum of terms made of a value that is none.
// Communicates: a sum for each dimension no longer unreduced, a gather for each axis joined or moved; cutting moves
// nothing. TF: dtensor.relayout.
using tutti::relayout;

// The value in the layout, and on the mesh, of `like`, whose shape and dtype do not matter but for the rank. TF:
// dtensor.relayout_like.
Tensor relayout_like(const Tensor& tensor, const Tensor& like);

// A plain tensor in a layout: each device gets its piece, a copy. Shapes: value is global. Throws: invalid_argument for
// a mesh tensor, another rank, or an unreduced layout.
Tensor shard(const Tensor& value, const Layout& layout);

// A plain tensor, or one on any mesh, in a layout on the layout's mesh; it is copied unless it lies there already, and
// from one mesh to another it is gathered first. Throws: as relayout and shard. TF: dtensor.copy_to_mesh.
Tensor copy_to_mesh(const Tensor& tensor, const Layout& layout);

}  // namespace tutti::dtensor
