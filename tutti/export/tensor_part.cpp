#include "tutti/export/tensor_part.h"

#include <set>

#include "tutti/core/str.h"

namespace tutti::saved_model {

std::vector<TensorInput> inputs_of_tensor_part(const Program& program,
                                               FunctionRef<void(const std::string& what)> refuse) {
  std::set<int> outside, read_by_steps, read;
  for (const Call& call : program.calls)
    for (const int value : operands_of(call)) (call.is_step ? read_by_steps : read).insert(value);
  for (const auto& output : program.outputs) read.insert(output.value);
  std::vector<TensorInput> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    outside.insert(static_cast<int>(i));
    if (!program.inputs[i].is_text) inputs.push_back({static_cast<int>(i), program.inputs[i].name});
  }
  for (const Call& call : program.calls) {
    if (!call.is_step) continue;
    for (const int value : operands_of(call))
      if (!outside.contains(value)) refuse(str("has a step ", call.op, " on what a call gave"));
    const int result = call.results[0].values[0];
    outside.insert(result);
    if (read.contains(result) || !read_by_steps.contains(result)) inputs.push_back({result, call.op});
  }
  return inputs;
}

}  // namespace tutti::saved_model
