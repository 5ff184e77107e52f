#include "optimizers.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace tutti::fuzz {
namespace {

std::unique_ptr<torch::optim::Optimizer> make(int which, const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  switch (which) {
    case 0: return std::make_unique<SGD>(parameters, SGDOptions(0.5));
    case 1: return std::make_unique<SGD>(parameters, SGDOptions(0.25).momentum(0.5).nesterov(true));
    case 2: return std::make_unique<Adam>(parameters, AdamOptions(0.125).amsgrad(true));
    case 3: return std::make_unique<AdamW>(parameters, AdamWOptions(0.125));
    case 4: return std::make_unique<RMSprop>(parameters, RMSpropOptions(0.125));
    default: return std::make_unique<Adagrad>(parameters, AdagradOptions(0.125));
  }
}

}  // namespace

Optimizers::Optimizers() = default;
Optimizers::~Optimizers() = default;

void Optimizers::step(int which, const std::vector<at::Tensor>& parameters) {
  auto& optimizer = made_[which];
  if (!optimizer) optimizer = make(which, parameters);
  optimizer->step();
}

const std::vector<std::string>& Optimizers::names() {
  static const std::vector<std::string> names{"SGD(leaves, SGDOptions(0.5))",
                                              "SGD(leaves, SGDOptions(0.25).momentum(0.5).nesterov(true))",
                                              "Adam(leaves, AdamOptions(0.125).amsgrad(true))",
                                              "AdamW(leaves, AdamWOptions(0.125))",
                                              "RMSprop(leaves, RMSpropOptions(0.125))",
                                              "Adagrad(leaves, AdagradOptions(0.125))"};
  return names;
}

}  // namespace tutti::fuzz
