#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/export/program.h"
#include "tutti/export/value.h"

namespace tutti::saved_model::pt2 {

// A program of torch.export that was read.
struct ReadProgram {
  Program program;  // "forward"
  std::map<std::string, Tensor>
      variables;  // by the names that it has for them, in CPU memory; a parameter requires grad
  // Throws invalid_argument for inputs of sizes for which Python did not export it.
  std::function<void(const std::vector<Value>& inputs)> check_inputs;
};

// The file may come from anybody: nothing of it is run, lengths are held against the file before memory is taken.
// Throws: not_found; data_loss for a damaged file; unimplemented, by name, for what programs of this library lack.
ReadProgram read_pt2(const std::filesystem::path& file);

}  // namespace tutti::saved_model::pt2
