#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>

namespace tutti {

// Code of ours that does what an op of LibTorch does, bit for bit and faster. It takes the arguments of the op's out=
// form. Threads: one at a time.
using NativeKernel = std::function<void(const torch::jit::Stack& arguments)>;

// Whether its elements, of this type, lie one after the other as they are.
bool lies_plainly(const at::Tensor& tensor, at::ScalarType dtype);

// For a call, by the op's name with its overload, with such arguments; their memory is not looked at. Null where there
// is none.
NativeKernel native_kernel_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
