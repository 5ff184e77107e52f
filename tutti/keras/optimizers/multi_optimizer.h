#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

// Which variables: those whose path or name begins with a match of a regular expression (ECMAScript's), those listed,
// or those of which a predicate is true.
class VariableFilter {
 public:
  // Throws: invalid_argument for no regular expression.
  VariableFilter(const char* expression) : VariableFilter(std::string(expression)) {}
  VariableFilter(const std::string& expression);
  VariableFilter(std::vector<Tensor> variables);
  template <class F>
  requires std::predicate<const F&, const Tensor&> VariableFilter(F predicate) : matches_(std::move(predicate)) {}

  bool operator()(const Tensor& variable) const { return matches_(variable); }

 private:
  std::function<bool(const Tensor&)> matches_;
};

struct MultiOptimizerOptions {
  std::string name = "multi_optimizer";
};

// Several optimizers, each for its own variables; the last one for those that no filter names. Each clips, averages and
// decays its own as it says; a loss_scale_factor of theirs is not used. learning_rate() and set_learning_rate() are
// those of the first optimizer. Throws, when the state is made: invalid_argument for a variable that the filters of two
// optimizers name. TF: tf.keras.optimizers.MultiOptimizer with an OptimizerMap
class MultiOptimizer : public Optimizer {
 public:
  using Map = std::vector<std::pair<VariableFilter, Optimizer>>;
  MultiOptimizer(const Map& map, const Optimizer& default_optimizer, const MultiOptimizerOptions& options = {});

  // All of them, each once, the default one last.
  const std::vector<Optimizer>& optimizers() const { return optimizers_; }

 private:
  std::vector<Optimizer> optimizers_;
};

}  // namespace tutti::keras::optimizers
