#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/mesh/layout.h"

namespace tutti::dtensor {

struct PackOptions {
  // Whether the components that the layout says are copies of one another are compared; else the caller promises it.
  bool check_copies = false;
};

// The tensor whose component on each device of the mesh, in its order, is given: the inverse of unpack. In an unreduced
// layout components are the terms of a sum. The components are copied.
// Shapes: each what the layout cuts for its device, the last ones along an axis shorter or empty; dtypes: equal.
// Throws: invalid_argument, naming the component, for another number of them, another rank, shape or dtype, copies that
// differ, or one that is a mesh tensor or needs a gradient, which would end here. TF: dtensor.pack.
Tensor pack(const std::vector<Tensor>& components, const Layout& layout, PackOptions options = {});

// What each device of the mesh holds, in its order. They share the tensor's memory where they can: clone() one before
// writing to it. No gradient flows. Throws: invalid_argument for a plain tensor. TF: dtensor.unpack.
std::vector<Tensor> unpack(const Tensor& tensor);

}  // namespace tutti::dtensor
