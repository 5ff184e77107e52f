#pragma once

#include <optional>

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// The op that returns a view with the geometry that this one gives its first argument: `t` of `t_`. None of resize_.
std::optional<c10::OperatorHandle> view_form_of(const c10::OperatorHandle& op);

// The gradients of views whose geometry such an op changes. Of a view that autograd makes again by the op that made it,
// as it does in separate buffers, LibTorch goes on with that op, and so with the former geometry: here the tensor takes
// the place of a view of itself in autograd's graph.
void register_views_in_place();

}  // namespace tutti
