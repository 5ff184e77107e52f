#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tutti {

// A few of LibTorch's composite ops ask on which device their operands lie, and choose kernels that no rule divides:
// cuDNN's of LSTMs, and fused attention. Whether the op is one of them.
bool chooses_by_device(const c10::OperatorHandle& op);

// Makes such an op of mesh tensors choose what is divided, unless each value is whole in one buffer. Returns true where
// it has put the results on the stack itself; else the op is to be run with the arguments there.
bool choose_for_mesh(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace tutti
