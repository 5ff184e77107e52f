#pragma once

#include "tutti/tensor/savable.h"

namespace torch::nn {
class Module;
}

namespace tutti::checkpoint {

// The parameters and buffers of a module and of those in it, named as LibTorch names them: "0.weight".
class ModuleState : public Savable {
 public:
  explicit ModuleState(torch::nn::Module& module) : module_(module) {}
  void visit_state(StateVisitor& visitor) override;

 private:
  torch::nn::Module& module_;
};

}  // namespace tutti::checkpoint
