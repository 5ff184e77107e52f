#include "tutti/keras/optimizers/multi_optimizer.h"

#include <algorithm>
#include <regex>
#include <unordered_map>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/variable_notes.h"

namespace tutti::keras::optimizers {
namespace {

bool begins_with_match(const std::string& text, const std::regex& expression) {
  return std::regex_search(text, expression, std::regex_constants::match_continuous);
}

std::regex compiled(const std::string& expression) {
  try {
    return std::regex(expression);
  } catch (const std::regex_error& error) {
    throw Error(ErrorCode::invalid_argument,
                str("MultiOptimizer: '", expression, "' is no regular expression: ", error.what()));
  }
}

// All optimizers, each once, the default one last.
std::vector<Optimizer> distinct(const MultiOptimizer::Map& map, const Optimizer& default_optimizer) {
  std::vector<Optimizer> optimizers;
  const auto is = [](const Optimizer& a) { return [&a](const Optimizer& b) { return a.impl() == b.impl(); }; };
  for (const auto& [filter, optimizer] : map)
    if (optimizer.impl() != default_optimizer.impl() && std::ranges::none_of(optimizers, is(optimizer)))
      optimizers.push_back(optimizer);
  optimizers.push_back(default_optimizer);
  return optimizers;
}

class MultiImpl final : public OptimizerImpl {
 public:
  MultiImpl(MultiOptimizer::Map map, std::vector<Optimizer> optimizers, std::string name)
      : OptimizerImpl({.learning_rate = 0.0, .name = std::move(name)}, /*slots=*/{}),
        map_(std::move(map)),
        optimizers_(std::move(optimizers)) {}

  void apply(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) override {
    std::vector<Group> groups(optimizers_.size());
    for (size_t i = 0; i < variables.size(); ++i) {
      Group& group = groups[place_of(variables[i])];
      group.variables.push_back(variables[i]);
      group.gradients.push_back(gradients[i]);
    }
    const bool any = std::ranges::any_of(groups, &Group::has_gradient);
    for (size_t i = 0; i < groups.size(); ++i) {
      const Group& group = groups[i];
      if (group.has_gradient() || (!any && !group.variables.empty()))  // without any, the first one refuses
        optimizers_[i].impl()->apply(group.gradients, group.variables, scale);
      else if (!group.variables.empty() && !std::exchange(warned_of_missing_gradients_, true))
        warn(str(name(), ": the variables of ", optimizers_[i].name(), " have no gradient and stay as they are"));
    }
    ++iterations_;
  }

  int64_t iterations() const override { return iterations_; }
  double learning_rate() const override { return optimizers_[0].learning_rate(); }
  void set_learning_rate(LearningRate rate) override { optimizers_[0].set_learning_rate(std::move(rate)); }
  bool has_schedule() const override { return optimizers_[0].has_schedule(); }
  void exclude_from_weight_decay(std::function<bool(const Tensor&)> excluded) override {
    for (const Optimizer& optimizer : optimizers_) optimizer.exclude_from_weight_decay(excluded);
  }
  void finalize_variable_values(std::span<const Tensor> variables) override {
    for_each_group(variables, [](const Optimizer& optimizer, const std::vector<Tensor>& own) {
      optimizer.finalize_variable_values(own);
    });
  }
  void swap_averages() override {
    for (const Optimizer& optimizer : optimizers_) optimizer.swap_averages();
  }
  void reset_averages() override {
    for (const Optimizer& optimizer : optimizers_) optimizer.reset_averages();
  }

  std::vector<Tensor> state() const override {
    std::vector<Tensor> all;
    for (const Optimizer& optimizer : optimizers_)
      std::ranges::move(optimizer.impl()->state(), std::back_inserter(all));
    return all;
  }

  void visit_state(StateVisitor& visitor) override {
    visitor.number("iterations", iterations_);
    for (size_t i = 0; i < optimizers_.size(); ++i) visitor.object(str("optimizer_", i), *optimizers_[i].impl());
  }

 private:
  struct Group {
    std::vector<Tensor> variables, gradients;
    bool has_gradient() const { return std::ranges::any_of(gradients, &Tensor::defined); }
  };

  void make_states(std::span<const Tensor> variables) override {
    for_each_group(variables, [](const Optimizer& optimizer, const std::vector<Tensor>& own) { optimizer.build(own); });
  }
  void update_variable(const Tensor&, const Tensor&, std::span<const Tensor>, const UpdateStep&) const override {}

  template <class F>
  void for_each_group(std::span<const Tensor> variables, const F& f) {
    std::vector<std::vector<Tensor>> groups(optimizers_.size());
    for (const Tensor& variable : variables) groups[place_of(variable)].push_back(variable);
    for (size_t i = 0; i < groups.size(); ++i)
      if (!groups[i].empty()) f(optimizers_[i], groups[i]);
  }

  // Of the variable's optimizer; looked for once.
  size_t place_of(const Tensor& variable) {
    const auto [known, is_new] = places_.try_emplace(variable.unsafeGetTensorImpl(), variable, 0);
    if (is_new) known->second.second = find_place(variable);
    return known->second.second;
  }

  size_t find_place(const Tensor& variable) const {
    const OptimizerImpl* found = nullptr;
    for (const auto& [matches, optimizer] : map_) {
      if (!matches(variable) || optimizer.impl().get() == found) continue;
      if (found)
        throw Error(ErrorCode::invalid_argument,
                    str(name(), ": two optimizers, ", found->name(), " and ", optimizer.name(),
                        ", are for the variable '", path_of(variable), "'; make their filters narrower"));
      found = optimizer.impl().get();
    }
    const auto is_found = [&](const Optimizer& optimizer) { return optimizer.impl().get() == found; };
    return found ? static_cast<size_t>(std::ranges::find_if(optimizers_, is_found) - optimizers_.begin())
                 : optimizers_.size() - 1;
  }

  MultiOptimizer::Map map_;
  std::vector<Optimizer> optimizers_;
  std::unordered_map<const void*, std::pair<Tensor, size_t>> places_;  // the tensor keeps the address its own
  int64_t iterations_ = 0;
  bool warned_of_missing_gradients_ = false;
};

}  // namespace

VariableFilter::VariableFilter(const std::string& expression)
    : matches_([expression = compiled(expression)](const Tensor& variable) {
        const std::string path = path_of(variable);
        return begins_with_match(path, expression) || begins_with_match(path.substr(path.rfind('/') + 1), expression);
      }) {}

VariableFilter::VariableFilter(std::vector<Tensor> variables)
    : matches_([variables = std::move(variables)](const Tensor& variable) {
        return std::ranges::any_of(variables, [&](const Tensor& listed) { return listed.is_same(variable); });
      }) {}

MultiOptimizer::MultiOptimizer(const Map& map, const Optimizer& default_optimizer, const MultiOptimizerOptions& options)
    : Optimizer(std::make_shared<MultiImpl>(map, distinct(map, default_optimizer), options.name)),
      optimizers_(distinct(map, default_optimizer)) {}

}  // namespace tutti::keras::optimizers
