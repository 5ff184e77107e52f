#pragma once

#include <memory>
#include <source_location>

namespace torch::optim {
class Optimizer;
}

namespace tutti {

class ServedUpdates;

// The steps of one of LibTorch's optimizers. Made in the scope of a ParameterServerStrategy with a cluster, it is the
// servers that make them; each task has the optimizer, and its state.
class TorchUpdates {
 public:
  // Throws: unimplemented on servers for LBFGS, and for classes other than LibTorch's.
  TorchUpdates(const std::shared_ptr<torch::optim::Optimizer>& optimizer, std::source_location location);

  // In global view. Throws: in a worker as ServedUpdates::push; failed_precondition for an optimizer that servers do
  // not know; unimplemented for sparse gradients where LibTorch refuses them.
  void step() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::weak_ptr<ServedUpdates> served_;
  int number_ = -1;  // by which the servers know it
};

}  // namespace tutti
