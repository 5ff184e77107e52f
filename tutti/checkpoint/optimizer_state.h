#pragma once

#include "tutti/tensor/savable.h"

namespace torch::optim {
class Optimizer;
}

namespace tutti::checkpoint {

// What one of LibTorch's optimizers keeps of each parameter, by the parameter's position in its groups: "0/exp_avg";
// and the options of each group that are numbers: "learning_rate_0", "weight_decay_0". The learning rate is restored;
// the others are the program's, and a warning names those that were saved with another value; a buffer that only they
// need begins at zero. State of a parameter that was saved without any is dropped; of one that the checkpoint does not
// know, it stays and is missing there: "5". Throws: unimplemented for state of a type that it does not know: a user's
// own.
class OptimizerState : public Savable {
 public:
  explicit OptimizerState(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}
  void visit_state(StateVisitor& visitor) override;

 private:
  torch::optim::Optimizer& optimizer_;
};

}  // namespace tutti::checkpoint
