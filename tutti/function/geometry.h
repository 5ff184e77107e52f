#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace tutti {

using Tensor = at::Tensor;

// Which elements of a buffer a tensor shows, and how. Two tensors of one buffer and one geometry are the same value,
// whatever objects they are: LibTorch hands out other objects for saved, detached and accumulated tensors.
struct Geometry {
  at::ScalarType dtype;
  at::DimVector sizes;
  at::DimVector strides;  // in elements
  int64_t offset;         // in elements, from the start of the buffer
  bool conjugate;
  bool negative;
  bool zero = false;  // LibTorch's zeros without memory, which some gradients are

  bool operator==(const Geometry&) const = default;
};

// Requires: the tensor has a storage.
Geometry geometry_of(const Tensor& tensor);
// "float32 [2, 3]"; strides and offset are named where they are not those of a fresh tensor.
std::string to_string(const Geometry& geometry);
// The bytes from the first element to behind the last; 0 if there are none.
int64_t extent_bytes(const Geometry& geometry);
// A tensor of this geometry on a storage, and on its device; without a graph.
Tensor tensor_on(const c10::Storage& storage, const Geometry& geometry);
// A tensor on the memory of an argument, of a geometry that counts from the argument's first element.
Tensor tensor_on_argument(const Tensor& argument, Geometry geometry);

}  // namespace tutti
