#include "tutti/tensor/conversion.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/arange.h>
#include <torch/csrc/autograd/function.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/max_pool1d.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using at::MemoryFormat;
using at::ScalarType;

// What is there of a tensor for a program that names a device: the whole value, gathered if it lies in pieces.
// LibTorch's gradient of copy_() names one too, for which no line of the program is to blame: it is not reported.
Tensor whole_of(const Tensor& self) {
  if (mesh_impl(self).spec()->sharded() && !torch::autograd::get_current_node())
    note_gather("aten::to", {at::IValue(self)});
  return gather(self);
}

// A program that names a device outside a scope wants a plain tensor there: printing, .cpu(), Module::to(device).
Tensor to_device(const Tensor& self, c10::Device device, ScalarType dtype, bool non_blocking, bool copy,
                 std::optional<MemoryFormat> format) {
  if (!ThreadView::current().scope) return whole_of(self).to(device, dtype, non_blocking, copy, format);
  return self.to(dtype, non_blocking, copy, format);
}

Tensor to_dtype_layout(const Tensor& self, std::optional<ScalarType> dtype, std::optional<at::Layout> layout,
                       std::optional<c10::Device> device, std::optional<bool> pinned, bool non_blocking, bool copy,
                       std::optional<MemoryFormat> format) {
  const ScalarType target = dtype.value_or(self.scalar_type());
  if (device && !ThreadView::current().scope)
    return whole_of(self).to(at::TensorOptions().dtype(target).layout(layout).device(device).pinned_memory(pinned),
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

// Returns the last class. `num_classes`: -1: as many as there are.
int64_t check_classes(const Tensor& self, int64_t num_classes) {
  const int64_t first = self.amin().item<int64_t>(), last = self.amax().item<int64_t>();
  if (first < 0 || (num_classes >= 0 && last >= num_classes))
    throw Error(ErrorCode::invalid_argument,
                str("one_hot: classes from ", first, " to ", last, "; they must be in [0, ", num_classes, ")"));
  return last;
}

// LibTorch's composite scatters into a plain tensor that it makes.
Tensor one_hot(const Tensor& self, int64_t num_classes) {
  if (self.scalar_type() != at::kLong)
    throw Error(ErrorCode::invalid_argument,
                tutti::str("one_hot: classes of type ", self.scalar_type(), "; they must be int64"));
  if (self.numel() == 0 && num_classes <= 0)
    throw Error(ErrorCode::invalid_argument, "one_hot: no elements, and no number of classes; name it");
  if (num_classes < 0)
    num_classes = check_classes(self, num_classes) + 1;
  else if (self.numel() > 0)
    host_step("one_hot", self, {}, [num_classes](at::ArrayRef<Tensor> now) { check_classes(now[0], num_classes); });
  const auto& impl = mesh_impl(self);
  const Tensor classes = make_mesh_tensor(
      impl.mesh_shape(), at::arange(num_classes, at::TensorOptions(at::kLong).device(impl.mesh_shape()->home)));
  return self.unsqueeze(-1).eq(classes).to(at::kLong, /*non_blocking=*/false, /*copy=*/false, MemoryFormat::Contiguous);
}

bool can_take_data_of(const Tensor& self, const Tensor& from) {
  if (!is_mesh_tensor(self) && is_mesh_tensor(from))
    throw Error(
        ErrorCode::failed_precondition,
        "set_data: a plain tensor cannot take the data of a mesh tensor. Where Module::clone() calls it, its new "
        "parameters were made outside of a scope: strategy.build([&] { return module->clone(); })");
  return is_mesh_tensor(self) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

}  // namespace

void register_conversions() {
  auto& backend = immortal_library("aten", kMeshKey);
  backend.impl("_has_compatible_shallow_copy_type", can_take_data_of);
  backend.impl("one_hot", one_hot);
  backend.impl("max_pool1d", max_pool1d);
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  autograd.impl("to.device", to_device);
  autograd.impl("to.dtype_layout", to_dtype_layout);
  autograd.impl("type_as", type_as);
  autograd.impl("softmax.int", softmax);
  autograd.impl("log_softmax.int", log_softmax);
  autograd.impl("one_hot", one_hot);
  autograd.impl("max_pool1d", max_pool1d);
  autograd.impl("_has_compatible_shallow_copy_type", can_take_data_of);
}

}  // namespace tutti
