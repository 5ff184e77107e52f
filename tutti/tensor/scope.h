#pragma once

#include <c10/core/TensorImpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

namespace tutti {

struct ScopeState {
  const MeshShape* shape;
  std::shared_ptr<GradientGroup> group;                        // null: no replicas will have gradients of what is made
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made;  // mesh tensors of this scope that may become variables
  std::optional<Layout> layout = {};                           // of what has its rank; the rest is replicated
  std::optional<int64_t> most_bytes_here = {};                 // what is larger gets no values (absent_values.h)
  size_t next_sweep = 1024;                                    // when `made` is this long, those that are gone leave it
};

// While one lives, factory functions on this thread create replicated mesh tensors. When replicas run, and when it
// ends, those that live on as leaves become variables: replicas have gradients of their own for them, which `group`
// reduces.
class Scope {
 public:
  Scope(const Mesh& mesh, std::shared_ptr<GradientGroup> group);
  ~Scope();
  // To be called before replicas run: makes variables in all scopes that are open on this thread.
  static void make_variables();
  // What is made from now on and has more bytes has its values in other processes.
  void keep_elsewhere(int64_t most_bytes_here) { state_.most_bytes_here = most_bytes_here; }
  // Makes variables in this one, and returns those mesh tensors that were made in it since the last call and live on.
  std::vector<at::Tensor> take_made();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void adopt();

  ScopeState state_;
  ThreadViewGuard view_;
  Scope* outer_;
};

// While one lives, factory functions on this thread create mesh tensors: in `layout`, if it has their rank, else
// replicated ones.
class LayoutScope {
 public:
  explicit LayoutScope(const Mesh& mesh);
  explicit LayoutScope(const Layout& layout);
  LayoutScope(const LayoutScope&) = delete;
  LayoutScope& operator=(const LayoutScope&) = delete;

 private:
  ScopeState state_;
  ThreadViewGuard view_;
};

// The layout that a scope gives tensors of this rank; null: they are replicated.
const Layout* scope_layout(const ScopeState& scope, int64_t rank);

// Tells the active scope, if any, of a mesh tensor that was made.
void note_made(const Tensor& tensor);

}  // namespace tutti
