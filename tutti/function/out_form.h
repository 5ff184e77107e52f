#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace tutti {

// The overload of an op that takes the same arguments and writes its results into tensors that it is given, if it has a
// kernel of its own for the CPU. LibTorch generates one for every other op, which makes the result and copies it.
std::optional<c10::OperatorHandle> out_form_of(const c10::OperatorHandle& op);

}  // namespace tutti
