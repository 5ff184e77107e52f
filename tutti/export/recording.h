#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/export/program.h"
#include "tutti/export/value.h"
#include "tutti/function/call_place.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"
#include "tutti/tensor/outer_recorder.h"

namespace tutti::saved_model {

// What a function did on inputs of certain sizes: a program without variables' names, whose integers are constants.
struct Recorded {
  struct Variable {
    Tensor tensor;
    std::string name;      // empty: nobody told one
    bool is_made = false;  // by the function itself, in C++: kept by value
    int64_t version = 0;   // when it was first used
  };
  // What a step gave.
  struct StepResult {
    int value;
    std::vector<int64_t> sizes;
    bool is_text;
    std::optional<int> free_size;  // the number, among such sizes, of that of the last axis
  };
  // Memory that the function fills with numbers, each by a write of its own, before it uses it; nothing is written to
  // it later. torch::tensor({1, 2}) is made so.
  struct Literal {
    int value;
    Tensor contents;
    std::vector<size_t> calls;  // that make the memory, views of it, and write to them
  };
  struct Form {
    at::ScalarType dtype = at::ScalarType::Undefined;  // of text and undefined tensors
    std::vector<int64_t> sizes = {};
  };

  std::vector<Variable> variables;
  std::vector<Call> calls;                                 // values are numbered as kVariables says
  std::vector<keras::layers::PreprocessingOptions> steps;  // of the calls that are steps, in their order
  std::vector<CallPlace> places;                           // where the user made the calls, if that was asked for
  std::vector<Form> forms;                                 // of the values that are no variables
  std::vector<StepResult> step_results;
  std::vector<Literal> literals;
  std::vector<Tensor> read_numbers;  // whose values C++ read, and no call, variable or input of the program gave them
  std::vector<int> outputs;
};

// In a recording variables have the numbers from here on, since it is not known how many there will be.
inline constexpr int kFirstVariable = 1'000'000'000;

// Records one run of a function. Threads: the one that runs it.
class Recording final : public OuterRecorder, public keras::layers::StepRecorder {
 public:
  using Function = std::function<Outputs(const std::vector<Value>& inputs)>;

  // `size_of_step`: how long a text's ids shall be, for the n-th step where that is free.
  Recording(std::string signature, std::function<int64_t(int step_size)> size_of_step)
      : signature_(std::move(signature)), size_of_step_(std::move(size_of_step)) {}

  // Before run(): notes where the user makes the calls, which takes some time for each.
  void keep_places() { keeps_places_ = true; }
  // Throws: unimplemented or failed_precondition for what cannot be saved: the text says which call and why.
  Recorded run(const Function& function, const std::vector<Value>& inputs, Outputs& outputs);

  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  void name_variable(const Tensor& variable, const std::string& name) override;
  keras::layers::TensorOrText step(keras::layers::PreprocessingOptions layer,
                                   std::vector<keras::layers::TensorOrText> inputs) override;

 private:
  [[noreturn]] void refuse(const std::string& what, ErrorCode code = ErrorCode::unimplemented) const;
  int number_of(const Tensor& tensor);
  int number_of(const Strings& text) const;
  int find_alias(const Tensor& tensor) const;
  int capture(const Tensor& tensor, bool is_made);
  int add(const Tensor& tensor);
  int add(const Strings& text);
  void add(Call call);
  Argument argument_of(const c10::IValue& value, const c10::Argument& schema);
  int result_of(const Tensor& tensor);
  bool keep_back(const c10::FunctionSchema& schema, const Call& call, const torch::jit::Stack& stack);
  bool reads_number_of_cpp(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) const;
  void settle(const Tensor& tensor);
  void refuse_call(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) const;
  [[noreturn]] void refuse_input_write(const Tensor& input) const;
  [[noreturn]] void refuse_variable_write(const Recorded::Variable& variable) const;
  void refuse_write(const Tensor& tensor) const;
  void refuse_writes() const;

  std::string signature_;
  std::function<int64_t(int step_size)> size_of_step_;
  Recorded recorded_;
  bool keeps_places_ = false;
  size_t num_inputs_ = 0;
  std::vector<Value> kept_;           // by number, so that addresses stay what they are
  std::vector<Tensor> kept_besides_;  // what the maps below know besides, for the same
  std::unordered_map<const c10::TensorImpl*, int> numbers_;
  struct Fresh {
    Tensor made;
    Call call;
  };
  std::unordered_map<const c10::StorageImpl*, Fresh> fresh_;  // memory without a value, and the call that made it
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::vector<std::pair<Tensor, int64_t>> input_versions_;
};

}  // namespace tutti::saved_model
