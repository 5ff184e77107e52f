#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "tutti/device/gpu.h"
#include "tutti/tensor/operator_info.h"

namespace tutti {

// Calls visit for each tensor of an argument or a result.
template <class Visit>
void for_each_tensor(const at::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const at::IValue& item : value.toListRef())
      if (item.isTensor()) visit(item.toTensor());
  }
}

// Whether a tensor's memory is what a replay can read and write: a dense one's, on the CPU or a GPU.
inline bool has_recordable_memory(const at::Tensor& tensor) {
  return tensor.has_storage() && (tensor.device().is_cpu() || is_gpu(tensor.device())) &&
         tensor.layout() == at::kStrided && !tensor.is_quantized();
}

// Throws: unimplemented, in the name of the function, for what `are` says ("an argument") of tensors with other memory.
void check_memory(const std::string& function, const char* are, at::ArrayRef<at::Tensor> tensors);

// Throws: failed_precondition, in the name of the function, for a call whose result a replay would get wrong.
void check_recordable(const std::string& function, const c10::OperatorHandle& op, const OperatorInfo& info,
                      at::ArrayRef<at::IValue> arguments);

// Whether the op draws for a dropout alone, and is called with none: attention, recurrent layers.
bool is_without_dropout(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments);

// Throws: unimplemented, in the name of the function, for a call that draws random numbers from a generator that a
// replay does not know.
void check_generator(const std::string& function, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments);

}  // namespace tutti
