#pragma once

#include <string>
#include <vector>

#include "tutti/export/pt2/write_pt2.h"

namespace tutti::saved_model::pt2 {

// A program in the schema of torch.export (torch/_export/serde/schema.py).
struct ExportedProgram {
  std::string json;
  std::vector<std::string> variables;  // the names that the program's variables have in it
  std::vector<int> inputs;             // values of the program that it takes
};

// Throws: unimplemented, as write_pt2.
ExportedProgram exported_program(const Source& source);

// The "tensor_meta" of a dense tensor in CPU memory. Throws: unimplemented for a dtype that the schema lacks.
std::string json_tensor_meta(const ValueType& type, bool requires_grad, int& num_unbacked);

}  // namespace tutti::saved_model::pt2
