#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "tutti/core/function_ref.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/export/program.h"
#include "tutti/export/value_type.h"
#include "tutti/function/call_place.h"

namespace tutti::saved_model::pt2 {

// A program and what was seen of it while it was recorded.
struct Source {
  const Program& program;
  std::span<const Tensor> variables;  // in CPU memory, contiguous
  std::span<const ValueType> types;   // of its values, by their numbers
  std::span<const CallPlace> places;  // where the user made its calls
};

// Writes an archive of torch.export that does what the tensor part of the program does: torch.export.load in Python
// reads it. Its module takes the tensors among the program's inputs, then what the steps give, in their order; it
// returns the one output, or a tuple. Unknown sizes are free there too. Variables that require gradients are
// parameters, the others buffers; in their names '/' is '.'.
// Throws: unimplemented for a step that works on what a call gave, for outputs of text, for a size that no tensor
// shows, and for a call that torch.export cannot write, with its name and the user's line; what `write` throws.
void write_pt2(const Source& source, FunctionRef<void(std::span<const std::byte> bytes)> write);

}  // namespace tutti::saved_model::pt2
