#include "rule_cases.h"

namespace tutti::rules {
namespace {

// Two steps of an optimizer with a fixed gradient. Results: the parameter, in the layout that it had.
template <class Optimizer, class Options>
Function steps(Options options) {
  return [options](const Tensors& t) -> Tensors {
    Tensor parameter = t[0].detach().clone().requires_grad_();
    Optimizer optimizer({parameter}, options);
    for (int step = 0; step < 2; ++step) {
      parameter.mutable_grad() = t[1].clone();
      optimizer.step();
    }
    return {parameter.detach()};
  };
}

RuleCase update(std::string name, Function function) {
  return {std::move(name),
          "ij,ij->ij",
          {constant({7, 5}), constant({7, 5})},
          std::move(function),
          "IJ,IJ,IJ,IJ,IJ,IJ,IJ,IJ,IJ,IJ,IJ,IJ",
          "",
          /*first_decides=*/true};
}

}  // namespace

std::vector<RuleCase> optimizer_cases() {
  using namespace torch::optim;
  return {
      update("sgd", steps<SGD>(SGDOptions(0.1))),
      update("sgd_with_momentum", steps<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01))),
      update("adam", steps<Adam>(AdamOptions(0.1))),
      update("adam_amsgrad", steps<Adam>(AdamOptions(0.1).amsgrad(true).weight_decay(0.01))),
      update("adamw", steps<AdamW>(AdamWOptions(0.1))),
      update("rmsprop", steps<RMSprop>(RMSpropOptions(0.1).centered(true).momentum(0.5))),
      update("adagrad", steps<Adagrad>(AdagradOptions(0.1).lr_decay(0.1))),
  };
}

}  // namespace tutti::rules
