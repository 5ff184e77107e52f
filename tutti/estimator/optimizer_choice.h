#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::estimator {

// The optimizer of a canned estimator: "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD", with the learning rate that the
// estimator has for it, or a function that makes one, for each run begins with a new one:
// [] { return keras::optimizers::Ftrl({.learning_rate = 0.1}); }.
class OptimizerChoice {
 public:
  OptimizerChoice(const char* name) : OptimizerChoice(std::string(name)) {}
  OptimizerChoice(std::string name);  // throws: invalid_argument for another name
  template <std::invocable F>
  OptimizerChoice(F make) : make_([make = std::move(make)](std::optional<double>) { return make(); }) {}

  // `learning_rate`: of one that is chosen by its name; none: its own default.
  keras::optimizers::Optimizer make(std::optional<double> learning_rate) const { return make_(learning_rate); }

 private:
  std::function<keras::optimizers::Optimizer(std::optional<double> learning_rate)> make_;
};

}  // namespace tutti::estimator
