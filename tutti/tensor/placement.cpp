#include "tutti/tensor/placement.h"

#include <ATen/ops/clone.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

const Spec* spec_of(const char* function, const Layout& layout, at::IntArrayRef sizes) {
  if (static_cast<int64_t>(sizes.size()) != layout.rank())
    throw Error(ErrorCode::invalid_argument, str(function, ": a value of shape ", str_list(sizes), " and a layout ",
                                                 layout.to_string(), " of rank ", layout.rank()));
  if (layout.has_match())
    throw Error(ErrorCode::invalid_argument,
                str(function, ": the layout ", layout.to_string(),
                    " takes entries of a tensor's; it is for relayout() of a mesh tensor"));
  AxisMap axes;
  for (const int dimension : layout.axes()) axes.push_back(static_cast<int8_t>(dimension));
  return intern(MeshShape::of(layout.mesh()), axes, layout.unreduced(), sizes);
}

Components own_pieces(const Tensor& value, const Spec* spec) {
  Components pieces = cut(value, spec);
  for (Tensor& piece : pieces)
    if (piece.is_alias_of(value)) piece = piece.clone();
  return pieces;
}

const Layout* scope_layout(const ScopeState& scope, int64_t rank) {
  return scope.layout && scope.layout->rank() == rank ? &*scope.layout : nullptr;
}

}  // namespace tutti
