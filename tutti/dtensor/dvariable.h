#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <string>

#include "tutti/core/tensor_fwd.h"
#include "tutti/mesh/layout.h"

namespace tutti::dtensor {

struct DVariableOptions {
  std::string name = {};                       // for messages and printing
  std::optional<Layout> layout = {};           // default: the initial value's
  std::optional<bool> requires_grad = {};      // default: of floating point numbers
};

// A tensor on a mesh that programs assign to and that keeps its layout. All of its state is the tensor's: modules,
// optimizers and checkpoints take it as one. TF: dtensor.DVariable.
class DVariable : public Tensor {
 public:
  DVariable() = default;
  // A copy of the value, a tensor on a mesh or a plain one. Throws: invalid_argument for a layout given that is not the
  // value's, a plain value without one outside of call_with_layout, another rank, or integers that need a gradient.
  explicit DVariable(const Tensor& initial, DVariableOptions options = {});

  // A copy of the value, in the layout. Grad: as of clone.
  Tensor value() const;

  // Each takes a value in any layout on the mesh, or a plain one, which is laid out as this is; no gradient flows. A
  // number counts for every element.
  // Shapes, dtypes: this one's. Throws: invalid_argument for others, or for another mesh.
  const DVariable& assign(const Tensor& value) const;
  const DVariable& assign_add(const Tensor& value) const;
  const DVariable& assign_sub(const Tensor& value) const;
  const DVariable& assign(const at::Scalar& value) const;
  const DVariable& assign_add(const at::Scalar& value) const;
  const DVariable& assign_sub(const at::Scalar& value) const;
};

}  // namespace tutti::dtensor
