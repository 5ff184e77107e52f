#pragma once

#include <string>
#include <vector>

#include "tutti/export/program.h"
#include "tutti/export/pt2/read_model.h"

namespace tutti::saved_model::pt2 {

// A program of torch.export as one of ours, under the name "forward".
struct MadeProgram {
  Program program;
  std::vector<InputSpec> variables = {};    // where those of the program are to be found
  std::vector<SizeRange> size_ranges = {};  // of its unknown sizes
};

// Throws: unimplemented, by name and with the way out, for what our programs do not have; data_loss for what does not
// hold together. `source` is the beginning of messages.
MadeProgram make_program(const Model& model, const std::string& source);

}  // namespace tutti::saved_model::pt2
