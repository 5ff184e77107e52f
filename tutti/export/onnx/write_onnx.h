#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/export/onnx/model.h"
#include "tutti/export/program.h"
#include "tutti/export/value_type.h"
#include "tutti/function/call_place.h"

namespace tutti::saved_model::onnx {

// A program and what was seen of it while it was recorded.
struct OnnxSource {
  const Program& program;
  std::span<const Tensor> variables;  // in CPU memory
  std::span<const ValueType> types;   // of its values, by their numbers
  std::span<const CallPlace> places;  // where the user made its calls
  // Where other files of the folder have the variables' bytes, by their names: such are not written.
  const std::map<std::string, FilePlace>& variable_places;
};

// The bytes of a .onnx file that does what the tensor part of the program does. Its inputs and outputs have their
// names: the tensors among the program's inputs, then what the steps give, in their order; unknown extents are "batch"
// and "size_1" and so on. Each variable comes once. Throws: unimplemented for a call that has no form in ONNX, with its
// name and the user's line, for a step that works on what a call gave, and for outputs of text; invalid_argument for an
// input and an output of one name.
std::string onnx_file(const OnnxSource& source);

}  // namespace tutti::saved_model::onnx
