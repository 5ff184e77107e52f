#include "tutti/function/geometry.h"

#include <ATen/TensorUtils.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/strides.h>

#include "tutti/core/str.h"

namespace tutti {

Geometry geometry_of(const Tensor& tensor) {
  return {tensor.scalar_type(),
          at::DimVector(tensor.sizes()),
          at::DimVector(tensor.strides()),
          tensor.storage_offset(),
          tensor.is_conj(),
          tensor.is_neg(),
          tensor._is_zerotensor()};
}

std::string to_string(const Geometry& geometry) {
  std::string text = str(c10::getDtypeNames(geometry.dtype).first, ' ', str_list(geometry.sizes));
  if (geometry.strides != c10::contiguous_strides(geometry.sizes)) text += str(" strides ", str_list(geometry.strides));
  if (geometry.offset) text += str(" at ", geometry.offset);
  if (geometry.conjugate) text += " conjugated";
  if (geometry.negative) text += " negated";
  if (geometry.zero) text += " without memory";
  return text;
}

int64_t extent_bytes(const Geometry& geometry) {
  if (geometry.zero) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] == 0) return 0;
    last += (geometry.sizes[i] - 1) * geometry.strides[i];
  }
  return (last + 1) * static_cast<int64_t>(c10::elementSize(geometry.dtype));
}

Tensor tensor_on(const c10::Storage& storage, const Geometry& geometry) {
  c10::DispatchKeySet keys(c10::computeDispatchKey(geometry.dtype, at::kStrided, storage.device()));
  if (geometry.zero) keys = keys.add(c10::DispatchKey::ZeroTensor);
  Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  tensor._set_conj(geometry.conjugate);
  tensor._set_neg(geometry.negative);
  return tensor;
}

Tensor tensor_on_argument(const Tensor& argument, Geometry geometry) {
  geometry.offset +=
      argument.storage_offset() * argument.element_size() / static_cast<int64_t>(c10::elementSize(geometry.dtype));
  return tensor_on(argument.storage(), geometry);
}

}  // namespace tutti
