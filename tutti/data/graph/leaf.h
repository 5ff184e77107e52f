#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::data::graph {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

// One part of an element: numbers, text, or a dataset, which is passed along and cannot be stacked.
using Leaf = std::variant<Tensor, Strings, NodePtr>;

// Throws: invalid_argument for a dataset. What looks at shapes, stacks or takes apart throws so too.
std::span<const int64_t> shape_of(const Leaf& leaf);

// "Float [2, 3] on cpu", "Strings [2]", "a dataset".
std::string describe(const Leaf& leaf);

// Whether shape, dtype and device agree.
bool same_form(const Leaf& a, const Leaf& b);

// Row `index` without the first axis, and consecutive rows: views.
Leaf row_of(const Leaf& leaf, int64_t index);
Leaf rows_of(const Leaf& leaf, int64_t first, int64_t count);

// Leaves of one form along a new first axis; the rows of leaves, one after the other.
Leaf stack_leaves(std::span<const Leaf> leaves);
Leaf concatenate_rows(std::span<const Leaf> leaves);

// The tensor in a leaf, if memcpy can read its storage; else null.
const Tensor* host_tensor(const Leaf& leaf);

// The values with nothing pending (gradients, conjugation, negation) and contiguous, unless they are sparse; the leaf
// itself where it is so.
Leaf packed(const Leaf& leaf);

}  // namespace tutti::data::graph
