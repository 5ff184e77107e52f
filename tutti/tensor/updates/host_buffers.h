#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tutti {

using Tensor = at::Tensor;

// The buffers of a value as they are, what replicas wrote not looked at: a mesh tensor's components, or a plain tensor
// itself. The value is first brought to this process where it is in another.
c10::ArrayRef<Tensor> buffers_of(const Tensor& tensor);
// The same with what replicas wrote.
c10::ArrayRef<Tensor> read_buffers_of(const Tensor& tensor);

// The values of a sparse tensor's elements, or of those that a mesh tensor lies in: what is written there is its own.
// Empty for a dense one.
std::vector<Tensor> sparse_values_of(const Tensor& tensor);

// Whether the value lies in dense buffers in host memory, as floating point numbers of 16, 32 or 64 bits.
bool in_host_buffers(const Tensor& tensor);

}  // namespace tutti
