#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "tutti/core/function_ref.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// A tensor of the sizes, strides and dtype of another, without memory: ops tell what they would return of it. Undefined
// for an undefined one.
at::Tensor without_memory(const at::Tensor& tensor);

// Lets LibTorch look at the sizes of a call: the op runs on tensors without memory, and what it returns of them is
// returned. Throws: what LibTorch throws where it does not take these operands. Of an op that cannot run without memory
// nothing is known, and nothing returned.
torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments);
// The same, on what `bare` gives for the operands, whose memory nobody looks into.
torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments,
                              FunctionRef<at::Tensor(const at::Tensor&)> bare);

}  // namespace tutti
