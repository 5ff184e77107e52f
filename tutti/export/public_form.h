#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tutti::saved_model {

// The public operator of LibTorch's that does the same as a private one that modules and torch.jit.trace call, with its
// arguments on the stack; any other operator is left as it is.
c10::OperatorHandle public_form(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace tutti::saved_model
