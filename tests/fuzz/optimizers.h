#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tutti::fuzz {

// The optimizers of a program that runs, made when they first step.
class Optimizers {
 public:
  Optimizers();
  ~Optimizers();
  void step(int which, const std::vector<at::Tensor>& parameters);

  static const std::vector<std::string>& names();  // as printed

 private:
  std::map<int, std::unique_ptr<torch::optim::Optimizer>> made_;
};

}  // namespace tutti::fuzz
