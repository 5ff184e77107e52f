#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "tutti/core/function_ref.h"
#include "tutti/mesh/layout.h"
#include "tutti/tensor/scope.h"

namespace tutti::dtensor {

// While it lives, factory functions on this thread create replicated tensors on the mesh. They nest.
class [[nodiscard]] DefaultMesh {
 public:
  explicit DefaultMesh(const Mesh& mesh) : scope_(mesh) {}

 private:
  LayoutScope scope_;
};

// auto guard = dtensor::default_mesh(mesh). Throws: failed_precondition in a replica's function. TF:
// dtensor.default_mesh.
DefaultMesh default_mesh(const Mesh& mesh);
// That of the innermost default_mesh, call_with_layout or strategy's scope on this thread. TF: get_default_mesh.
std::optional<Mesh> get_default_mesh();

// What f returns, in the layout. While f runs, factory functions and stateless random functions give tensors of the
// layout's rank in it, and of other ranks replicated on its mesh; they can be parameters and variables of their own.
// Of stateless random numbers each device makes its own pieces alone. Without a layout f is just called.
// Throws: invalid_argument for a result of another rank or on another mesh; failed_precondition in a replica's
// function. TF: dtensor.call_with_layout.
Tensor call_with_layout(const std::optional<Layout>& layout, FunctionRef<Tensor()> f);

}  // namespace tutti::dtensor
