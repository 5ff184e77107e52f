#include "tutti/function/joined_calls.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tutti/function/native_trial.h"

namespace tutti {
namespace {

std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

}  // namespace

JoinedCalls::JoinedCalls(const Program& program, const std::vector<const Program::Call*>& calls, const Memory& memory,
                         std::vector<Tensor> written, std::function<void()> joined, std::shared_ptr<JoinedProof> proof)
    : written_(std::move(written)), joined_(std::move(joined)), proof_(std::move(proof)) {
  ++proof_->untried;
  const auto is_made_by = [&](const Program::Call& call, int value) {
    const int maker = program.buffers[static_cast<size_t>(program.values[static_cast<size_t>(value)].buffer)].maker;
    return maker >= 0 && &program.calls[static_cast<size_t>(maker)] == &call;
  };
  for (const Program::Call* const call : calls) {
    calls_.push_back({*call->op, {}, {}});
    for (const Program::Operand& argument : call->arguments) calls_.back().arguments.push_back(memory.build(argument));
    for (const Program::Operand& result : call->results)
      calls_.back().results.push_back(result.values.size() == 1 && is_made_by(*call, result.values[0])
                                          ? memory.tensor(result.values[0])
                                          : Tensor());
  }
}

void JoinedCalls::run_calls() {
  for (const Call& call : calls_) {
    torch::jit::Stack stack = call.arguments;
    call.op.callBoxed(stack);
    for (size_t i = 0; i < call.results.size(); ++i)
      if (call.results[i].defined()) call.results[i].copy_(stack[i].toTensor());
  }
}

void JoinedCalls::prove() {
  const std::vector<Tensor> before = copies_of(written_);
  joined_();
  const std::vector<Tensor> made = copies_of(written_);
  for (size_t i = 0; i < written_.size(); ++i) written_[i].copy_(before[i]);
  run_calls();
  proof_->refuted |= !std::equal(made.begin(), made.end(), written_.begin(), has_the_bits_of);
  if (!tried_) --proof_->untried;
  tried_ = true;
}

void JoinedCalls::run() {
  if (proof_->refuted) return run_calls();
  proof_->untried > 0 ? prove() : joined_();
}

}  // namespace tutti
