#include "tutti/tensor/scope.h"

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/registration.h"

namespace tutti {
namespace {

thread_local Scope* t_innermost = nullptr;

// Global view with this scope, in the strategy that the thread is in.
ThreadView with_scope(ScopeState& scope) {
  ThreadView view = ThreadView::current().global();
  view.scope = &scope;
  return view;
}

// What is gone leaves the list, and so its memory; the list is looked through as often as it doubles.
void sweep(ScopeState& scope) {
  std::erase_if(scope.made, [](const auto& weak) { return weak.expired(); });
  scope.next_sweep = std::max<size_t>(1024, 2 * scope.made.size());
}

}  // namespace

Scope::Scope(const Mesh& mesh, std::shared_ptr<GradientGroup> group)
    : state_{MeshShape::of(mesh), std::move(group), {}, {}},
      view_(with_scope(state_)),
      outer_(std::exchange(t_innermost, this)) {
  ensure_registered();
}

Scope::~Scope() {
  adopt();
  t_innermost = outer_;
}

void Scope::adopt() {
  for (const auto& weak : state_.made)
    if (const auto impl = weak.lock()) adopt_variable(static_cast<MeshTensorImpl&>(*impl), state_.group);
}

std::vector<at::Tensor> Scope::take_made() {
  adopt();
  std::vector<at::Tensor> made;
  for (const auto& weak : std::exchange(state_.made, {}))
    if (auto impl = weak.lock()) made.emplace_back(std::move(impl));
  return made;
}

void Scope::make_variables() {
  for (Scope* scope = t_innermost; scope; scope = scope->outer_) scope->adopt();
}

LayoutScope::LayoutScope(const Mesh& mesh) : state_{MeshShape::of(mesh), {}, {}, {}}, view_(with_scope(state_)) {
  ensure_registered();
}

LayoutScope::LayoutScope(const Layout& layout)
    : state_{MeshShape::of(layout.mesh()), {}, {}, layout}, view_(with_scope(state_)) {
  ensure_registered();
}

void note_made(const Tensor& tensor) {
  auto* scope = ThreadView::current().scope;
  if (!scope || !scope->group) return;
  if (scope->made.size() >= scope->next_sweep) sweep(*scope);
  scope->made.emplace_back(tensor.getIntrusivePtr());
}

const Layout* scope_layout(const ScopeState& scope, int64_t rank) {
  return scope.layout && scope.layout->rank() == rank ? &*scope.layout : nullptr;
}

}  // namespace tutti
