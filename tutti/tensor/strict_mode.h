#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace tutti {

struct Spec;

// While one lives on this thread, an op throws failed_precondition instead of doing, unasked, one of these:
//   - it has no rule for its operands' layouts, and would gather them;
//   - its rule needs an operand in another layout, and pieces would move for it (all_gather, all_to_all);
//   - a plain tensor among its operands would count as replicated.
// What moves nothing (a local slice) is done, and so are the sums that an op or a layout is due. Merged buffers, where
// none of it costs anything, are no exception.
class StrictMode {
 public:
  StrictMode();
  ~StrictMode();
  StrictMode(const StrictMode&) = delete;
  StrictMode& operator=(const StrictMode&) = delete;
};

// An op without a rule for its layouts gathers: warns once per op, or throws in strict mode.
void note_gather(const std::string& op, at::ArrayRef<at::IValue> arguments);
// An op needs an operand in another layout, and devices would have to exchange pieces of it: throws in strict mode.
void check_implied_relayout(const std::string& op, const Spec& from, const Spec& to);
// A plain operand would count as replicated: throws in strict mode, but for those of LibTorch's own backward formulas.
void check_plain_operand(const std::string& op);

}  // namespace tutti
