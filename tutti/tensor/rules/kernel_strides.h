#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>

namespace tutti {

// Of an op whose kernel gives its results other strides than LibTorch says of tensors without memory: what the kernel
// gives, as tensors without memory; an empty list where that cannot be told. Nothing of all other ops.
std::optional<torch::jit::Stack> results_of_kernel(const std::string& name, at::ArrayRef<at::IValue> arguments);

// Whether LibTorch's code without memory divides by numbers of such a call before it looks whether they fit, which its
// kernels do.
bool may_divide_by_zero(const std::string& name, at::ArrayRef<at::IValue> arguments);

}  // namespace tutti
