#include "tutti/function/control_flow_step.h"

#include "tutti/function/geometry.h"
#include "tutti/function/replay.h"

namespace tutti {
namespace {

// All of the memory that a tensor lies in.
Tensor whole_memory(const Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  return inference_tensor_on(tensor.storage(), {at::kByte, {bytes}, {1}, 0, false, false});
}

}  // namespace

ControlFlowStep::ControlFlowStep(const Program::Call& call, FunctionRef<Tensor(int value)> tensor)
    : predicate_(tensor(call.arguments[0].values[0])) {
  for (size_t i = 0; i < call.parts.size(); ++i) {
    parts_.push_back({std::make_unique<Replay>(call.parts[i].program), {}});
    for (const int value : call.arguments[1 + i].values) parts_.back().memory.push_back(whole_memory(tensor(value)));
  }
}

ControlFlowStep::~ControlFlowStep() = default;

Tensors ControlFlowStep::run() {
  Part& taken = parts_[*predicate_.const_data_ptr<bool>() ? 0 : 1];
  return taken.replay->run(taken.memory);
}

}  // namespace tutti
