#include "tutti/keras/optimizers/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/core/log.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::keras::optimizers {
namespace {

using ::testing::HasSubstr;

Tensor variable() { return at::tensor({1.0, -2.0}).requires_grad_(); }
Tensor gradient() { return at::tensor({3.0, 4.0}); }

// The variable after `steps` updates with one gradient.
Tensor trained(const Optimizer& optimizer, int steps) {
  const Tensor w = variable();
  for (int step = 0; step < steps; ++step) optimizer.apply_gradients({gradient()}, {w});
  return w.detach();
}

TEST(SGD, FollowsItsFormulas) {
  const Tensor w = variable().detach();
  const Tensor g = gradient();
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1}), 2), w - 0.2 * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .momentum = 0.5}), 2), w - (0.1 + 0.15) * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .momentum = 0.5, .nesterov = true}), 1), w - 0.15 * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .weight_decay = 0.5}), 1), 0.95 * w - 0.1 * g));
}

TEST(Adam, FollowsItsFormulas) {
  const Tensor g = gradient();
  const Tensor first_step = 0.1 * std::sqrt(0.001) * g / (std::sqrt(0.001) * g + 1e-3);
  EXPECT_TRUE(at::allclose(trained(Adam({.learning_rate = 0.1, .epsilon = 1e-3}), 1), variable() - first_step));
}

TEST(Adam, AmsgradKeepsTheLargestSecondMoment) {
  const Adam adam({.beta_2 = 0.5, .amsgrad = true});
  const Tensor w = variable();
  adam.apply_gradients({gradient()}, {w});
  adam.apply_gradients({0 * gradient()}, {w});
  const std::vector<Tensor> state = adam.impl()->state();
  ASSERT_EQ(state.size(), 3U);
  EXPECT_TRUE(at::allclose(state[1], 0.25 * gradient().square()));
  EXPECT_TRUE(at::allclose(state[2], 0.5 * gradient().square()));
}

TEST(Optimizer, ClipsInThreeWays) {
  const Tensor w = variable().detach();
  const Tensor g = gradient();  // norm 5
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipnorm = 1}), 1), w - g / 5));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipnorm = 6}), 1), w - g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipvalue = 3.5}), 1), w - at::tensor({3.0, 3.5})));
  const SGD global({.learning_rate = 1, .global_clipnorm = 6.5});
  const Tensor a = variable(), b = variable();
  global.apply_gradients({g, at::tensor({12.0, 0.0})}, {a, b});  // together 13
  EXPECT_TRUE(at::allclose(a, w - g / 2));
  EXPECT_TRUE(at::allclose(b, w - at::tensor({6.0, 0.0})));
  EXPECT_THAT(error_of([] { SGD({.clipnorm = 1, .clipvalue = 1}); }), HasSubstr("set one of them"));
}

TEST(Optimizer, KeepsStatePerVariableInAnyOrder) {
  const SGD optimizer({.learning_rate = 1, .momentum = 1});
  const Tensor a = variable(), b = variable();
  optimizer.apply_gradients({gradient(), 0 * gradient()}, {a, b});
  optimizer.apply_gradients({0 * gradient(), 0 * gradient()}, {b, a});
  EXPECT_TRUE(at::allclose(a, variable() - 2 * gradient()));
  EXPECT_TRUE(at::allclose(b, variable()));
}

TEST(Optimizer, LeavesVariablesWithoutGradientAndSaysSo) {
  std::vector<std::string> warnings;
  const WarningSink previous = set_warning_sink([&](const std::string& line) { warnings.push_back(line); });
  const SGD optimizer({.learning_rate = 1});
  const Tensor a = variable(), b = variable();
  for (int i = 0; i < 2; ++i) optimizer.apply_gradients({gradient(), {}}, {a, b});
  set_warning_sink(previous);
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(at::allclose(b, variable()));
  EXPECT_THAT(error_of([&] { optimizer.apply_gradients({Tensor()}, {a}); }), HasSubstr("no variable has a gradient"));
}

TEST(Optimizer, RefusesListsOfUnequalLength) {
  EXPECT_THAT(error_of([] { SGD().apply_gradients({gradient()}, {}); }), HasSubstr("1 gradients for 0 variables"));
}

TEST(Optimizer, CountsUpdatesAndFollowsItsSchedule) {
  const SGD optimizer({.learning_rate = [](int64_t step) { return step < 1 ? 1.0 : 0.5; }});
  EXPECT_TRUE(at::allclose(trained(optimizer, 2), variable() - 1.5 * gradient()));
  EXPECT_EQ(optimizer.iterations(), 2);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  optimizer.set_learning_rate(0.25);
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
}

}  // namespace
}  // namespace tutti::keras::optimizers
