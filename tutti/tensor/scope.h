#pragma once

#include <c10/core/TensorImpl.h>

#include <memory>
#include <vector>

#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

namespace tutti {

struct ScopeState {
  const MeshShape* shape;
  std::shared_ptr<GradientGroup> group;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made;  // mesh tensors that this scope has seen
};

// While one lives, factory functions on this thread create replicated mesh tensors. When it ends, those that live on as
// leaves have become variables: replicas have gradients of their own for them, which `group` reduces.
class Scope {
 public:
  Scope(const Mesh& mesh, std::shared_ptr<GradientGroup> group);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  ScopeState state_;
  ThreadViewGuard view_;
};

// Tells the active scope, if any, of a mesh tensor that was made.
void note_made(const Tensor& tensor);

}  // namespace tutti
