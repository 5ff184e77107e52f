#pragma once

#include <string>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/export/program.h"

namespace tutti::saved_model {

// An input of the part of a program that other programs can run: a tensor among its inputs, or what a step gives to it.
struct TensorInput {
  int value = 0;
  std::string name;  // that of the input; of a step its own, which may come several times
};

// In their order. Text stays outside, with the steps. `refuse` is called, and must throw, where a step works on what a
// call gave.
std::vector<TensorInput> inputs_of_tensor_part(const Program& program,
                                               FunctionRef<void(const std::string& what)> refuse);

}  // namespace tutti::saved_model
