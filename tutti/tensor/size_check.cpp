#include "tutti/tensor/size_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/accumulate.h>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/view.h"

namespace tutti {

Tensor without_memory(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor result =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kMeta).dtype(tensor.dtype()));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  const bool can_require_grad =
      tensor.is_floating_point() || tensor.is_complex();  // integers seem to, once compared in place
  if (at::GradMode::is_enabled() && can_require_grad && tensor.requires_grad()) result.set_requires_grad(true);
  return result;
}

namespace {

// native_group_norm(input, weight, bias, N, C, HxW, groups, eps): without memory LibTorch divides by these numbers
// before it looks whether they fit, which its kernels do.
bool may_divide_by_zero(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  if (op.schema().name() != "aten::native_group_norm") return false;
  const at::IntArrayRef sizes = arguments[0].toTensor().sizes();
  const int64_t groups = arguments[6].toInt();
  return sizes.size() < 2 || sizes[0] != arguments[3].toInt() || sizes[1] != arguments[4].toInt() ||
         c10::multiply_integers(sizes.slice(2)) != arguments[5].toInt() || groups < 1 || sizes[1] % groups != 0;
}

}  // namespace

torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  if (may_divide_by_zero(op, arguments)) return {};
  const NotRecorded no_call_of_the_program(c10::DispatchKeySet({kFrontKey, kGeneratorKey}));
  torch::jit::Stack call(arguments.begin(), arguments.end());
  for (at::IValue& value : call) replace_tensors(value, without_memory);
  try {
    op.callBoxed(call);
    return call;
  } catch (const c10::NotImplementedError&) {
    return {};
  }
}

}  // namespace tutti
