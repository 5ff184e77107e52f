#pragma once

#include <ATen/core/Tensor.h>

// Memory of tensors whose values are in another process: addresses without pages. Read, it is zero; what is written
// there takes pages, as any memory does.
namespace tutti {

// A plain tensor in such memory. Throws: resource_exhausted where there are no more addresses.
at::Tensor absent_tensor(at::IntArrayRef sizes, at::ScalarType dtype);
// Whether a plain tensor lies in such memory, or in a copy of it.
bool is_absent(const at::Tensor& tensor);
// Gives the memory of a plain tensor's storage back, and puts such memory in its place.
void make_absent(const at::Tensor& tensor);

}  // namespace tutti
