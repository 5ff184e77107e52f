#include "tutti/tensor/size_check.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using at::IValue;
using at::Tensor;

Tensor without_memory(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor result =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kMeta).dtype(tensor.dtype()));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (at::GradMode::is_enabled() && tensor.requires_grad()) result.set_requires_grad(true);
  return result;
}

void take_memory(IValue& value) {
  if (value.isTensor()) {
    value = without_memory(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(without_memory(tensor));
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const IValue& item : value.toListRef())
      list.push_back(item.isTensor() ? std::optional<Tensor>(without_memory(item.toTensor())) : std::nullopt);
    value = std::move(list);
  }
}

}  // namespace

torch::jit::Stack check_sizes(const c10::OperatorHandle& op, at::ArrayRef<IValue> arguments) {
  const NotRecorded no_call_of_the_program(c10::DispatchKeySet({kFrontKey, kGeneratorKey}));
  torch::jit::Stack call(arguments.begin(), arguments.end());
  for (IValue& value : call) take_memory(value);
  try {
    op.callBoxed(call);
    return call;
  } catch (const c10::NotImplementedError&) {
    return {};
  }
}

}  // namespace tutti
