#pragma once

#include "tutti/tensor/relayout.h"
#include "tutti/tensor/scope.h"

namespace tutti {

// What a tensor of these sizes is in a layout. Throws: invalid_argument, with the name of the function, for a layout of
// another rank, or with kMatch.
const Spec* spec_of(const char* function, const Layout& layout, at::IntArrayRef sizes);

// The pieces of a plain value of global sizes, each in memory of its own.
Components own_pieces(const Tensor& value, const Spec* spec);

// The layout that a scope gives tensors of this rank; null: they are replicated.
const Layout* scope_layout(const ScopeState& scope, int64_t rank);

}  // namespace tutti
