#include "tutti/tensor/rules/arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

Tensor tensor_or_none(const at::IValue& value) { return value.isTensor() ? value.toTensor() : Tensor(); }

at::DimVector all_axes(int64_t rank) {
  at::DimVector axes;
  for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

at::DimVector axes_or_all(const at::IValue& value, int64_t rank) {
  if (value.isNone() || rank == 0) return all_axes(rank);
  at::DimVector axes = value.isInt() ? at::DimVector{value.toInt()} : value.toDimVector();
  if (axes.empty()) return all_axes(rank);
  for (auto& axis : axes) axis = c10::maybe_wrap_dim(axis, rank);
  return axes;
}

double count_of(const Tensor& tensor, at::IntArrayRef axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(tensor.size(axis));
  return count;
}

bool is_sharded(const Tensor& tensor, at::IntArrayRef axes) {
  if (!is_mesh_tensor(tensor) || tensor.dim() == 0) return false;
  const auto& impl = mesh_impl(tensor);
  if (impl.whole()) return false;
  const AxisMap& dimensions = impl.spec()->axes;
  return std::any_of(axes.begin(), axes.end(), [&](int64_t axis) {
    return dimensions[static_cast<size_t>(c10::maybe_wrap_dim(axis, tensor.dim()))] >= 0;
  });
}

at::ScalarType sum_type(at::ScalarType type) {
  if (type == at::kComplexHalf) return at::kComplexFloat;
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

Tensor in_type(const Tensor& tensor, at::ScalarType type) {
  return !tensor.defined() || tensor.scalar_type() == type ? tensor : tensor.to(type);
}

Tensor in_sum_type(const Tensor& tensor) { return in_type(tensor, sum_type(tensor.scalar_type())); }

std::vector<at::IValue> call(const char* name, const char* overload, std::vector<at::IValue> arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).callBoxed(arguments);
  return arguments;
}

}  // namespace tutti
