#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/function/laid_out.h"
#include "tutti/function/program.h"

namespace tutti {

class Replay;

// Runs a call that has parts, with a replay of its own for each of them. Threads: one at a time.
class ControlFlowStep {
 public:
  // `tensor`: a value of the call's program, on memory whose place is known when the step runs.
  ControlFlowStep(const Program::Call& call, FunctionRef<Tensor(int value)> tensor);
  ~ControlFlowStep();
  ControlFlowStep(const ControlFlowStep&) = delete;
  ControlFlowStep& operator=(const ControlFlowStep&) = delete;

  // The call's results, some of which may lie in the memory that its parts work on.
  Tensors run();

 private:
  struct Part {
    std::unique_ptr<Replay> replay;
    Tensors memory;  // bytes
  };

  Tensors run_cond();
  Tensors run_loop();

  bool is_loop_;
  Tensors operands_;  // the predicate, or the initial state
  std::optional<int64_t> maximum_iterations_;
  std::vector<Part> parts_;
};

}  // namespace tutti
