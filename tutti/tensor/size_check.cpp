#include "tutti/tensor/size_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/rules/kernel_strides.h"
#include "tutti/tensor/rules/op_traits.h"
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

torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  const bool marks_lazy = looks_at_lazy_bits(op.schema().name());
  return check_sizes(op, arguments, [&](const Tensor& tensor) {
    Tensor bare = without_memory(tensor);
    if (marks_lazy && tensor.is_conj()) bare._set_conj(true);
    if (marks_lazy && tensor.is_neg()) bare._set_neg(true);
    return bare;
  });
}

torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments,
                              FunctionRef<Tensor(const Tensor&)> bare) {
  if (may_divide_by_zero(op.schema().name(), arguments)) return {};
  const NotRecorded no_call_of_the_program(c10::DispatchKeySet({kFrontKey, kGeneratorKey}));
  torch::jit::Stack call(arguments.begin(), arguments.end());
  for (at::IValue& value : call) replace_tensors(value, [&](const Tensor& tensor) { return bare(tensor); });
  try {
    op.callBoxed(call);
    return call;
  } catch (const c10::NotImplementedError&) {
    return {};
  }
}

}  // namespace tutti
