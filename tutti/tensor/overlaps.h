#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "tutti/tensor/operator_info.h"

namespace tutti {

// Elements that are written and share memory, with each other or with others that are read, are LibTorch's error, of
// which pieces that are copies say nothing. Throws: that error, for mesh tensors in separate buffers.
void check_overlaps(const c10::OperatorHandle& op, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments);

}  // namespace tutti
