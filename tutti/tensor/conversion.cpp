#include "tutti/tensor/conversion.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_softmax.h>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using at::MemoryFormat;
using at::ScalarType;

// A program that names a device outside a scope wants a plain tensor there: printing, .cpu(), Module::to(device).
Tensor to_device(const Tensor& self, c10::Device device, ScalarType dtype, bool non_blocking, bool copy,
                 std::optional<MemoryFormat> format) {
  if (!ThreadView::current().scope) return gather(self).to(device, dtype, non_blocking, copy, format);
  return self.to(dtype, non_blocking, copy, format);
}

Tensor to_dtype_layout(const Tensor& self, std::optional<ScalarType> dtype, std::optional<at::Layout> layout,
                       std::optional<c10::Device> device, std::optional<bool> pinned, bool non_blocking, bool copy,
                       std::optional<MemoryFormat> format) {
  const ScalarType target = dtype.value_or(self.scalar_type());
  if (device && !ThreadView::current().scope)
    return gather(self).to(at::TensorOptions().dtype(target).layout(layout).device(device).pinned_memory(pinned),
                           non_blocking, copy, format);
  return self.to(target, non_blocking, copy, format);
}

// LibTorch's composites of these name the tensor's own device when they convert, which is not to gather it.
Tensor softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return at::_softmax(dtype ? self.to(*dtype) : self, dim, /*half_to_float=*/false);
}
Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return at::_log_softmax(dtype ? self.to(*dtype) : self, dim, /*half_to_float=*/false);
}

Tensor type_as(const Tensor& self, const Tensor& other) { return self.to(other.scalar_type()); }

bool can_take_data_of(const Tensor& self, const Tensor& from) {
  return is_mesh_tensor(self) ||
         (!is_mesh_tensor(from) && self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()));
}

}  // namespace

void register_conversions() {
  auto& backend = immortal_library("aten", kMeshKey);
  backend.impl("_has_compatible_shallow_copy_type", can_take_data_of);
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  autograd.impl("to.device", to_device);
  autograd.impl("to.dtype_layout", to_dtype_layout);
  autograd.impl("type_as", type_as);
  autograd.impl("softmax.int", softmax);
  autograd.impl("log_softmax.int", log_softmax);
  autograd.impl("_has_compatible_shallow_copy_type", can_take_data_of);
}

}  // namespace tutti
