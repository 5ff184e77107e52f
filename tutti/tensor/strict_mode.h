#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace tutti {

// While one lives on this thread, an op that would gather sharded operands, or count a plain tensor as replicated,
// throws failed_precondition instead.
class StrictMode {
 public:
  StrictMode();
  ~StrictMode();
  StrictMode(const StrictMode&) = delete;
  StrictMode& operator=(const StrictMode&) = delete;
};

// An op without a rule for its layouts gathers: warns once per op, or throws in strict mode.
void note_gather(const std::string& op, at::ArrayRef<at::IValue> arguments);
// A plain operand would count as replicated: throws in strict mode, but for those of LibTorch's own backward formulas.
void check_plain_operand(const std::string& op);

}  // namespace tutti
