#pragma once

#include <map>
#include <string>
#include <vector>

#include "tutti/export/program.h"
#include "tutti/export/recording.h"
#include "tutti/export/value_type.h"

namespace tutti::saved_model {

// A program for inputs of any batch, and of any other size that is unknown, and what it refers to.
struct Generalized {
  Program program;                                         // its steps have no configuration yet
  std::vector<Recorded::Variable> variables;               // of the program
  std::vector<keras::layers::PreprocessingOptions> steps;  // of its calls that are steps
  std::vector<ValueType> types;                            // of its values, by their numbers
  std::vector<CallPlace> places;                           // where the user made its calls
};

// Records the function for several sizes of inputs, and finds each integer of its calls as a constant and multiples of
// the unknown sizes and of products of two of them; then runs what it found beside the function, on other sizes and
// values, and compares the bits.
// Throws: unimplemented or failed_precondition for a function that cannot be saved; the text says which call and why.
// `names`: of variables that no layer names. A variable that nobody names has no name in the program.
Generalized generalize(const std::string& name, const std::vector<Spec>& inputs, const Recording::Function& function,
                       const std::map<std::string, Tensor>& names);

// Inputs of these unknown sizes: numbers of a normal distribution, 0 and 1 of integers.
std::vector<Value> sample_inputs(const std::vector<Spec>& inputs, const std::vector<int64_t>& sizes);
// For each input and axis the number of its unknown size; -1: it is known.
std::vector<std::vector<int>> sizes_of_inputs(const std::vector<Spec>& inputs);

}  // namespace tutti::saved_model
