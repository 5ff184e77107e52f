#pragma once

#include <ATen/core/ivalue.h>

#include "tutti/tensor/mesh_tensor.h"

// What planning reads of the operand of a call, which is a value among the arguments.
namespace tutti {

// Null for what is no mesh tensor.
inline const Spec* spec_of(const at::IValue& value) {
  return value.isTensor() && is_mesh_tensor(value.toTensor()) ? mesh_impl(value.toTensor()).spec() : nullptr;
}

// Whether as an index it is a mask, not places.
inline bool is_mask_tensor(const Tensor& tensor) {
  return tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
}

}  // namespace tutti
