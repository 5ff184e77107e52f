#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/core/structure.h"

namespace tutti {

using Tensor = at::Tensor;

// A while_loop that is under way.
struct Loop {
  using FlatTensors = structure::Flat<Tensor>;

  FunctionRef<Tensor(const std::vector<Tensor>& state)> condition;
  FunctionRef<FlatTensors(const std::vector<Tensor>& state)> body;
  std::optional<int64_t> maximum_iterations;
  FlatTensors state;  // where it stands
  int64_t num_iterations = 0;
  std::optional<bool> goes_on = {};  // what the condition said of that state, if it was asked

  bool has_had_all() const { return maximum_iterations && num_iterations >= *maximum_iterations; }
  // Throws: invalid_argument, naming the state, where the body gave one of another structure, shape or dtype.
  void refuse_other(const FlatTensors& next) const;
};

// "float32 [2, 3]", "no tensor".
std::string text_of_kind(const Tensor& tensor);

}  // namespace tutti
