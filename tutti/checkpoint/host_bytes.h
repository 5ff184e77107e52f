#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti::checkpoint {

// The elements of a plain tensor, row-major in CPU memory: itself where it is that already, else a copy.
Tensor to_host(const Tensor& tensor);
// The bytes of a tensor that to_host() returned. They are the tensor's.
std::span<const std::byte> bytes_of(const Tensor& host);

}  // namespace tutti::checkpoint
