#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace tutti {

// A call of LibTorch's on plain tensors, in which some are sparse gradients, in another way than LibTorch makes it.
// Returns whether it was made, with the results in the place of the arguments.
using SparseForm = bool (*)(torch::jit::Stack& stack);

// Of addcmul_(self, tensor1, tensor2, value) and addcdiv_: what Adagrad adds. LibTorch's own asks whether gradients are
// sparse, and then adds the rows that they have; those of a mesh look dense. Null for other ops. The forms throw
// unimplemented where Adam or RMSprop, which take no sparse gradients, multiply them.
SparseForm sparse_form_of(const std::string& name);

}  // namespace tutti
