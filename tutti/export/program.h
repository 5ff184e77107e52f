#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/export/spec.h"

namespace tutti::saved_model {

// An integer of a program: a constant and multiples of unknown sizes, or of products of two of them.
struct Integer {
  struct Term {
    int64_t factor = 0;
    std::vector<int> sizes;  // their numbers
    bool operator==(const Term&) const = default;
  };
  int64_t constant = 0;
  std::vector<Term> terms = {};
  bool operator==(const Integer&) const = default;
};

// Throws: invalid_argument where it is no int64.
int64_t value_of(const Integer& integer, const std::vector<int64_t>& sizes);

// An argument of a call.
struct Argument {
  enum class Kind {
    none,
    value,   // a tensor of the program
    values,  // several; -1: none
    boolean,
    booleans,
    integer,
    integers,
    number,
    numbers,
    text,
    device,          // that on which the program runs
    integer_scalar,  // a number where LibTorch takes a tensor, which does not decide the dtype
    number_scalar,
  };
  Kind kind = Kind::none;
  std::vector<int> values = {};
  std::vector<Integer> integers = {};  // of booleans too: 0 or 1
  std::vector<double> numbers = {};
  std::string text = {};
  bool operator==(const Argument&) const = default;
};

// A call of an operator of LibTorch's, or a step of preprocessing.
struct Call {
  struct NamedArgument {
    std::string name;
    Argument argument;
    bool operator==(const NamedArgument&) const = default;
  };
  // The values that a result is: new ones, or one that was written in place. A list has any number of them.
  struct Result {
    bool is_list = false;
    std::vector<int> values = {};  // -1: an undefined tensor
    bool operator==(const Result&) const = default;
  };

  std::string op = {};  // "aten::add.Tensor"; of a step "text_vectorization"
  bool is_step = false;
  int64_t version = 0;                        // of a step
  std::vector<NamedArgument> arguments = {};  // of a step one, "input"
  std::string config = {};                    // of a step: a JSON object
  std::vector<Result> results = {};
  bool operator==(const Call&) const = default;
};

// Where an unknown size is found.
struct Place {
  int value = 0;
  int axis = 0;
  bool operator==(const Place&) const = default;
};

// What a signature does, as plain data: calls in their order. Its values have numbers: first the inputs, then the
// variables, then what the calls give.
struct Program {
  struct Output {
    Spec spec;
    int value = 0;
    bool operator==(const Output&) const = default;
  };

  std::string name;
  std::vector<Spec> inputs = {};
  std::vector<std::string> variables = {};     // by their names in the model
  std::vector<std::vector<Place>> sizes = {};  // for each unknown size, all places that have it
  std::vector<Call> calls = {};
  std::vector<Output> outputs = {};
  bool operator==(const Program&) const = default;

  int num_given() const { return static_cast<int>(inputs.size() + variables.size()); }
};

// The values that a call reads.
std::vector<int> operands_of(const Call& call);
// Whether it makes memory that has no value yet, as empty() does.
bool makes_memory_without_value(const Call& call);

}  // namespace tutti::saved_model
