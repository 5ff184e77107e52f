#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/export/program.h"
#include "tutti/export/value.h"

namespace tutti::saved_model {

// Runs a program. Threads: any number at once.
class Runner {
 public:
  using Step = std::function<Value(const std::vector<Value>& inputs)>;

  using InputCheck = std::function<void(const std::vector<Value>& inputs)>;

  // `variables` and `steps` in the program's order. `source` names the program in messages. `check_inputs` may refuse
  // inputs that the program's specs describe.
  // Throws: unimplemented for a call that this library or its LibTorch does not know; data_loss for one that its op
  // does not take.
  Runner(Program program, std::vector<Tensor> variables, std::vector<Step> steps, at::Device device,
         const std::string& source, InputCheck check_inputs = {});
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  const Program& program() const { return program_; }
  // The outputs in the program's order.
  // Throws: invalid_argument for inputs that the program's specs do not describe, and as the calls.
  std::vector<Value> run(const std::vector<Value>& inputs) const;

 private:
  struct PreparedCall {
    std::optional<c10::OperatorHandle> op;
    size_t step = 0;                         // else
    std::vector<const Argument*> arguments;  // by the op's schema; null: its default
    std::vector<int> last_uses;              // values that nothing reads after it
    bool makes_tensors = false;              // of no others: they lie on the program's device
  };

  PreparedCall prepare(const Call& call, size_t& num_steps, const std::string& source) const;
  void find_last_uses();
  void check(const std::vector<Value>& inputs) const;
  void call(const Call& call, const PreparedCall& prepared, const std::vector<int64_t>& sizes,
            std::vector<Value>& values) const;
  c10::IValue argument(const Argument& argument, const c10::Argument& schema, const std::vector<int64_t>& sizes,
                       const std::vector<Value>& values) const;

  Program program_;
  std::vector<Tensor> variables_;
  std::vector<Step> steps_;
  at::Device device_;
  InputCheck check_inputs_;
  std::vector<PreparedCall> calls_;
  int num_values_ = 0;
};

}  // namespace tutti::saved_model
