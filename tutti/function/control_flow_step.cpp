#include "tutti/function/control_flow_step.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/item.h>

#include <utility>

#include "tutti/function/replay.h"
#include "tutti/function/replay_memory.h"

namespace tutti {
namespace {

// All of the memory that a tensor lies in.
Tensor whole_memory(const Tensor& tensor) {
  return bytes_on(tensor.storage(), static_cast<int64_t>(tensor.storage().nbytes()));
}

bool is_true(const Tensor& flag) { return flag.is_cpu() ? *flag.const_data_ptr<bool>() : flag.item<bool>(); }

Tensors joined(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.append(b.begin(), b.end());
  return all;
}

bool has_own_memory(const Tensor& tensor) {
  return tensor.storage().use_count() == 1 && tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

}  // namespace

ControlFlowStep::ControlFlowStep(const Program::Call& call, FunctionRef<Tensor(int value)> tensor)
    : is_loop_(call.name == "while_loop") {
  for (const int value : call.arguments[0].values) operands_.push_back(tensor(value));
  if (is_loop_) maximum_iterations_ = call.arguments[1 + call.parts.size()].constant.toOptional<int64_t>();
  for (size_t i = 0; i < call.parts.size(); ++i) {
    parts_.push_back({std::make_unique<Replay>(call.parts[i].program), {}});
    for (const int value : call.arguments[1 + i].values) parts_.back().memory.push_back(whole_memory(tensor(value)));
  }
}

ControlFlowStep::~ControlFlowStep() = default;

Tensors ControlFlowStep::run() { return is_loop_ ? run_loop() : run_cond(); }

Tensors ControlFlowStep::run_cond() {
  Part& taken = parts_[is_true(operands_[0]) ? 0 : 1];
  return taken.replay->run(taken.memory);
}

Tensors ControlFlowStep::run_loop() {
  Part &condition = parts_[0], &body = parts_[1];
  Tensors state;
  for (const Tensor& initial : operands_) state.push_back(initial.clone(at::MemoryFormat::Contiguous));
  for (int64_t i = 0; !maximum_iterations_ || i < *maximum_iterations_; ++i) {
    if (!is_true(condition.replay->run(joined(state, condition.memory))[0])) break;
    Tensors next = body.replay->run(joined(state, body.memory));
    for (Tensor& tensor : next)
      if (!has_own_memory(tensor)) tensor = tensor.clone(at::MemoryFormat::Contiguous);
    state = std::move(next);
  }
  return state;
}

}  // namespace tutti
