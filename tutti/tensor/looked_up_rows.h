#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// Rows of a table that lies elsewhere, as they were brought.
struct LookedUpRows {
  at::Tensor numbers;  // [k] of int64, ascending
  at::Tensor values;   // [k, ...], of a memory of its own
};

// Puts them into the place of the table in a call that reads rows (argument_of_row_numbers) numbered by its argument
// `ids`, and their places among them into the place of their numbers. Their gradient is one of the table, sparse, of
// these rows. Throws: unimplemented where global view would differentiate.
void put_rows(const LookedUpRows& rows, const c10::OperatorHandle& op, size_t ids, torch::jit::Stack& stack);

// Makes a call of mul_ if it multiplies a sparse tensor by one number: in the memory of its values. LibTorch's gives
// the tensor other values, and where its data() was multiplied, as clip_grad_norm_ does, nothing comes of it.
bool scale_sparse(const at::Tensor& self, const at::Tensor& factor);

}  // namespace tutti
