#include "tutti/tensor/scope.h"

#include "tutti/tensor/registration.h"

namespace tutti {

Scope::Scope(const Mesh& mesh, std::shared_ptr<GradientGroup> group)
    : state_{MeshShape::of(mesh), std::move(group), {}, {}}, view_({.scope = &state_}) {
  ensure_registered();
}

Scope::~Scope() {
  for (const auto& weak : state_.made)
    if (const auto impl = weak.lock()) adopt_variable(static_cast<MeshTensorImpl&>(*impl), state_.group);
}

LayoutScope::LayoutScope(const Mesh& mesh) : state_{MeshShape::of(mesh), {}, {}, {}}, view_({.scope = &state_}) {
  ensure_registered();
}

LayoutScope::LayoutScope(const Layout& layout)
    : state_{MeshShape::of(layout.mesh()), {}, {}, layout}, view_({.scope = &state_}) {
  ensure_registered();
}

void note_made(const Tensor& tensor) {
  if (auto* scope = ThreadView::current().scope; scope && scope->group) scope->made.emplace_back(tensor.getIntrusivePtr());
}

}  // namespace tutti
