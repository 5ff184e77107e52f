#include "tutti/checkpoint/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"

namespace tutti {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace optim = torch::optim;

std::vector<Tensor> make_parameters(int64_t count) {
  std::vector<Tensor> parameters;
  for (int64_t i = 0; i < count; ++i) parameters.push_back(torch::full({3}, 0.5 + i).requires_grad_());
  return parameters;
}

// A step by the gradients of some of the parameters.
void step(optim::Optimizer& optimizer, const std::vector<Tensor>& used) {
  optimizer.zero_grad();
  optimizer.step([&] {
    Tensor loss = torch::zeros({});
    for (const Tensor& parameter : used) loss = loss + parameter.square().sum();
    loss.backward();
    return loss;
  });
}

template <class State>
State& state_of(optim::Optimizer& optimizer, const Tensor& parameter) {
  return static_cast<State&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
}

// Two optimizers that have made the same steps; one then restores a checkpoint without an optimizer.
template <class Optimizer, class Options>
void expect_untouched(const Options& options, int num_missing) {
  const TemporaryFolder folder;
  const auto parameters = make_parameters(2), twins = make_parameters(2);
  Optimizer optimizer(parameters, options), twin(twins, options);
  for (int i = 0; i < 5; ++i) {
    step(optimizer, parameters);
    step(twin, twins);
  }
  Checkpoint({{"net", parameters[0]}}).write(folder / "c");
  auto status = Checkpoint({{"net", parameters[0]}, {"optimizer", optimizer}}).restore(folder / "c");
  status.expect_partial();
  EXPECT_EQ(status.differences().missing.size(), num_missing + 1) << status.differences().to_string();
  EXPECT_THAT(status.differences().missing, Contains("optimizer/0"));
  EXPECT_THAT(status.differences().missing, Contains("optimizer/learning_rate_0"));
  step(optimizer, parameters);
  step(twin, twins);
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(parameters[i].equal(twins[i])) << i;
}

TEST(OptimizerState, StaysAsItIsWhereTheCheckpointHasNoOptimizer) {
  expect_untouched<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9), 2);
  expect_untouched<optim::Adam>(optim::AdamOptions(0.1), 2);
  expect_untouched<optim::AdamW>(optim::AdamWOptions(0.1), 2);
  expect_untouched<optim::Adagrad>(optim::AdagradOptions(0.1), 2);
  expect_untouched<optim::RMSprop>(optim::RMSpropOptions(0.1), 2);
  expect_untouched<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(2), 1);
}

// Of an optimizer with two parameters more than the one that was saved.
template <class Optimizer, class Options>
void expect_more_is_missing(const Options& options) {
  const TemporaryFolder folder;
  const auto parameters = make_parameters(4);
  Optimizer saved({parameters[0], parameters[1]}, options), grown(parameters, options);
  step(saved, {parameters[0], parameters[1]});
  step(grown, parameters);
  step(grown, parameters);
  Checkpoint({{"optimizer", saved}}).write(folder / "c");
  auto status = Checkpoint({{"optimizer", grown}}).restore(folder / "c");
  EXPECT_THAT(status.differences().missing, ElementsAre("optimizer/2", "optimizer/3"));
  EXPECT_THAT(error_of([&] { status.assert_existing_objects_matched(); }), HasSubstr("'optimizer/2', 'optimizer/3'"));
  EXPECT_EQ(grown.state().size(), 4);
  step(grown, parameters);
}

TEST(OptimizerState, OfMoreParametersThanWereSavedStaysAndIsMissing) {
  expect_more_is_missing<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9));
  expect_more_is_missing<optim::Adam>(optim::AdamOptions(0.1));
  expect_more_is_missing<optim::Adagrad>(optim::AdagradOptions(0.1));
}

TEST(OptimizerState, OfAParameterThatHadNoneWhenItWasSavedIsReset) {
  const TemporaryFolder folder;
  const auto parameters = make_parameters(2);
  optim::Adam optimizer(parameters, optim::AdamOptions(0.1));
  const Checkpoint checkpoint({{"optimizer", optimizer}});
  checkpoint.write(folder / "fresh");
  step(optimizer, {parameters[1]});
  checkpoint.write(folder / "half");
  step(optimizer, parameters);
  checkpoint.restore(folder / "half").assert_consumed();
  EXPECT_EQ(optimizer.state().size(), 1);
  EXPECT_EQ(state_of<optim::AdamParamState>(optimizer, parameters[1]).step(), 1);
  checkpoint.restore(folder / "fresh").assert_consumed();
  EXPECT_THAT(optimizer.state(), IsEmpty());
}

// What an optimizer had in checkpoints without the number of its parameters.
class WithoutNumberOfParameters : public Savable {
 public:
  void visit_state(StateVisitor& visitor) override {
    double rate = 0.25;
    visitor.number("learning_rate_0", rate);
  }
};

TEST(OptimizerState, IsResetByACheckpointWithoutTheNumberOfParametersButNotAdagrads) {
  const TemporaryFolder folder;
  WithoutNumberOfParameters old;
  Checkpoint({{"optimizer", old}}).write(folder / "c");
  const auto parameters = make_parameters(1);
  optim::Adam adam(parameters, optim::AdamOptions(0.1));
  optim::Adagrad adagrad(parameters, optim::AdagradOptions(0.1));
  step(adam, parameters);
  step(adagrad, parameters);
  Checkpoint({{"optimizer", adam}}).restore(folder / "c").assert_consumed();
  EXPECT_THAT(adam.state(), IsEmpty());
  auto status = Checkpoint({{"optimizer", adagrad}}).restore(folder / "c");
  status.expect_partial();
  EXPECT_THAT(status.differences().missing, ElementsAre("optimizer/0"));
  EXPECT_EQ(state_of<optim::AdagradParamState>(adagrad, parameters[0]).step(), 1);
  step(adagrad, parameters);
}

// Restores the state of an optimizer with some options into a fresh and into a used one with others.
template <class Optimizer, class State, class Options, class Buffer>
void expect_begins_at_zero(const Options& saved_options, const Options& options, const char* warning, Buffer buffer) {
  const TemporaryFolder folder;
  const auto parameters = make_parameters(2);
  Optimizer saved(parameters, saved_options);
  step(saved, parameters);
  Checkpoint({{"optimizer", saved}}).write(folder / "c");
  for (const bool is_used : {false, true}) {
    Optimizer optimizer(parameters, options);
    if (is_used) step(optimizer, parameters);
    CollectedWarnings warnings;
    Checkpoint({{"optimizer", optimizer}}).restore(folder / "c").assert_consumed();
    EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr(warning)));
    for (const Tensor& parameter : parameters) {
      const Tensor begun = buffer(state_of<State>(optimizer, parameter));
      ASSERT_TRUE(begun.defined()) << warning;
      EXPECT_TRUE(begun.equal(torch::zeros({3}))) << warning;
    }
    step(optimizer, parameters);
    EXPECT_TRUE(buffer(state_of<State>(optimizer, parameters[0])).abs().gt(0).all().template item<bool>()) << warning;
  }
}

TEST(OptimizerState, BuffersThatOnlyTheProgramsOptionsNeedBeginAtZero) {
  const auto max = [](auto& state) { return state.max_exp_avg_sq(); };
  expect_begins_at_zero<optim::Adam, optim::AdamParamState>(
      optim::AdamOptions(0.1), optim::AdamOptions(0.1).amsgrad(true), "amsgrad (group 0) was 0", max);
  expect_begins_at_zero<optim::AdamW, optim::AdamWParamState>(
      optim::AdamWOptions(0.1), optim::AdamWOptions(0.1).amsgrad(true), "amsgrad (group 0) was 0", max);
  expect_begins_at_zero<optim::RMSprop, optim::RMSpropParamState>(
      optim::RMSpropOptions(0.1), optim::RMSpropOptions(0.1).momentum(0.9), "momentum (group 0) was 0",
      [](auto& state) { return state.momentum_buffer(); });
  expect_begins_at_zero<optim::RMSprop, optim::RMSpropParamState>(
      optim::RMSpropOptions(0.1), optim::RMSpropOptions(0.1).centered(true), "centered (group 0) was 0",
      [](auto& state) { return state.grad_avg(); });
}

// What fits of another class's state is taken, and the rest begins anew.
template <class Optimizer, class Options>
void expect_steps_after_another(optim::Optimizer& saved, const std::vector<Tensor>& parameters,
                                const Options& options) {
  const TemporaryFolder folder;
  step(saved, parameters);
  Checkpoint({{"optimizer", saved}}).write(folder / "c");
  Optimizer optimizer(parameters, options);
  step(optimizer, parameters);
  CollectedWarnings warnings;
  Checkpoint({{"optimizer", optimizer}}).restore(folder / "c").expect_partial();
  step(optimizer, parameters);
  for (const Tensor& parameter : parameters) EXPECT_TRUE(parameter.isfinite().all().item<bool>());
}

TEST(OptimizerState, OfAnotherClassLeavesAnOptimizerThatCanStep) {
  const auto parameters = make_parameters(2);
  optim::SGD sgd(parameters, optim::SGDOptions(0.1).momentum(0.9));
  optim::Adam adam(parameters, optim::AdamOptions(0.1));
  expect_steps_after_another<optim::SGD>(adam, parameters, optim::SGDOptions(0.1).momentum(0.9));
  expect_steps_after_another<optim::Adam>(sgd, parameters, optim::AdamOptions(0.1));
  expect_steps_after_another<optim::AdamW>(sgd, parameters, optim::AdamWOptions(0.1).amsgrad(true));
  expect_steps_after_another<optim::Adagrad>(adam, parameters, optim::AdagradOptions(0.1));
  expect_steps_after_another<optim::RMSprop>(adam, parameters, optim::RMSpropOptions(0.1).centered(true));
  expect_steps_after_another<optim::LBFGS>(adam, parameters, optim::LBFGSOptions(0.1).max_iter(2));
}

}  // namespace
}  // namespace tutti
