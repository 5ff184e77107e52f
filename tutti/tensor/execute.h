#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "tutti/tensor/operator_info.h"

namespace tutti {

using Stack = torch::jit::Stack;

// Each runs one op whose arguments are on top of the stack and leaves its results there. Autograd and autocast are
// behind.

// Where every operand is one buffer: one call on the buffers. `plan` gives the results' layouts; null: all are
// replicated.
void run_on_one_buffer(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape,
                       const Plan* plan, Stack& stack);
// One call for each set of pieces.
void run_on_pieces(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape, const Plan& plan,
                   Stack& stack);
// One call on gathered operands; what it wrote is cut and written back.
void run_gathered(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape, const Plan& plan,
                  Stack& stack);

// Fills the first argument with the random numbers that one device would have drawn for it.
void run_drawn(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack);

// A new tensor, with the strides that the plan knows of this result.
Tensor with_strides_of(const Plan& plan, size_t result, const Tensor& tensor);

}  // namespace tutti
