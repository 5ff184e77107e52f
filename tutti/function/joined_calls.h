#pragma once

#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/function/program.h"

namespace tutti {

// Of joined calls that stand or fall together: each makes all its calls' results until all are seen to give the same
// bits, and where one does not.
struct JoinedProof {
  int untried = 0;
  bool refuted = false;
};

// Calls of a program that code of ours makes in one go, in prepared memory. The first run makes the results by
// LibTorch's calls too: where a bit differs, those are what later runs make. Threads: one at a time.
class JoinedCalls {
 public:
  struct Memory {
    FunctionRef<Tensor(int value)> tensor;
    FunctionRef<at::IValue(const Program::Operand&)> build;  // an argument
  };

  // `joined` makes the values in `written`, all that is needed of what the calls make. Requires: tensors and arguments
  // whose memory stays theirs, or is set by their storages' pointers.
  JoinedCalls(const Program& program, const std::vector<const Program::Call*>& calls, const Memory& memory,
              std::vector<Tensor> written, std::function<void()> joined,
              std::shared_ptr<JoinedProof> proof = std::make_shared<JoinedProof>());
  JoinedCalls(const JoinedCalls&) = delete;
  JoinedCalls& operator=(const JoinedCalls&) = delete;

  void run();
  // Whether LibTorch's calls are made after all.
  bool is_refuted() const { return proof_->refuted; }

 private:
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;
    std::vector<Tensor> results;  // undefined: that one is written by it, not made
  };

  void run_calls();
  void prove();

  std::vector<Call> calls_;
  std::vector<Tensor> written_;
  std::function<void()> joined_;
  std::shared_ptr<JoinedProof> proof_;
  bool tried_ = false;
};

}  // namespace tutti
