#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti::equivalence {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// A module as the suite drives it.
struct Built {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensor(const Tensors&)> forward;
};

struct ModuleCase {
  std::string name;
  std::function<Built()> make;      // with parameters from the current random state
  std::function<Tensors()> inputs;  // from the current random state
  int64_t batch_axis = 0;
  bool mixes_batch = false;  // an output depends on the whole batch (BatchNorm)
  bool embeds = false;       // inputs are integers
};

std::vector<ModuleCase> module_cases();

}  // namespace tutti::equivalence
