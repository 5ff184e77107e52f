#include "tutti/dtensor/default_mesh.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/dtensor/relayout.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {

DefaultMesh default_mesh(const Mesh& mesh) {
  require_global_view("default_mesh");
  return DefaultMesh(mesh);
}

std::optional<Mesh> get_default_mesh() {
  const auto* scope = ThreadView::current().scope;
  return scope ? std::optional(scope->shape->mesh) : std::nullopt;
}

Tensor call_with_layout(const std::optional<Layout>& layout, FunctionRef<Tensor()> f) {
  if (!layout) return f();
  require_global_view("call_with_layout");
  if (layout->has_match() || layout->unreduced())
    throw Error(ErrorCode::invalid_argument, str("call_with_layout: layout ", layout->to_string(),
                                                 "; it must say where each axis of a whole value lies"));
  Tensor result;
  {
    const LayoutScope scope(*layout);
    result = f();
  }
  if (result.dim() != layout->rank())
    throw Error(ErrorCode::invalid_argument,
                str("call_with_layout: the function gave a tensor of shape ", str_list(result.sizes()), "; the layout ",
                    layout->to_string(), " has rank ", layout->rank()));
  return is_mesh_tensor(result) ? tutti::relayout(result, *layout) : shard(result, *layout);
}

}  // namespace tutti::dtensor
