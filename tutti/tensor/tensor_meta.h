#pragma once

#include <ATen/core/DimVector.h>
#include <c10/core/TensorOptions.h>

#include "tutti/tensor/components.h"
#include "tutti/tensor/spec.h"

namespace tutti {

// What the components of a value have in common. A mesh tensor knows it of itself (MeshTensorImpl::meta), for where its
// components are in other processes it has none to ask.
struct TensorMeta {
  // As of a value laid out as `spec` that has this component.
  static TensorMeta of(const Spec& spec, const Tensor& component);

  at::TensorOptions options() const { return at::TensorOptions(dtype).device(device); }

  caffe2::TypeMeta dtype;
  c10::Device device;          // of the first component
  c10::DispatchKeySet bits{};  // a conjugation or negation that no component has computed yet
  at::DimVector strides;       // of the whole value: the order of the axes in memory is also each component's
};

// A conjugation or negation that is not computed yet: a mesh tensor has it as its components do.
inline constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

}  // namespace tutti
