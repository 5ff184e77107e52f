#include "tutti/dtensor/fetch_layout.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::dtensor {

bool is_dtensor(const Tensor& tensor) { return is_mesh_tensor(tensor); }

Layout fetch_layout(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor))
    throw Error(ErrorCode::invalid_argument,
                "fetch_layout: a plain tensor has no layout; shard() or copy_to_mesh() gives it one");
  return layout_of(tensor);
}

void check_layout(const Tensor& tensor, const Layout& layout) {
  const auto full = [](const Layout& each) { return each.to_string() + " on " + each.mesh().to_string(); };
  if (!is_mesh_tensor(tensor))
    throw Error(ErrorCode::invalid_argument, str("check_layout: a plain tensor; expected ", full(layout)));
  if (const Layout actual = layout_of(tensor); !(actual == layout))
    throw Error(ErrorCode::invalid_argument, str("check_layout: ", full(actual), "; expected ", full(layout)));
}

}  // namespace tutti::dtensor
