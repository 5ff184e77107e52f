// Optimizers whose rule is of whole variables, beside their formulas written out.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adamw.h"
#include "tutti/keras/optimizers/lamb.h"
#include "tutti/keras/optimizers/muon.h"
#include "tutti/keras/optimizers/schedule_free_adamw.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/variable_notes.h"

namespace tutti::keras::optimizers {
namespace {

using ::testing::HasSubstr;

constexpr double kVariableRate = 0.05;
constexpr int kUpdates = 5;

Tensor gradient_of_update(int t) { return at::ones({2, 3}, at::kDouble).cumsum(1) * std::cos(t) + 0.1 * t; }
Tensor start() { return at::ones({2, 3}, at::kDouble).cumsum(0) * 0.7; }

TEST(Lamb, FollowsItsFormula) {
  const Tensor w = start();
  const Lamb lamb({.learning_rate = kVariableRate, .weight_decay = 0.1});
  Tensor expected = start(), m = at::zeros_like(w), v = at::zeros_like(w);
  for (int t = 1; t <= kUpdates; ++t) {
    const Tensor g = gradient_of_update(t);
    expected = expected * (1 - 0.1 * kVariableRate);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const Tensor u = m / (1 - std::pow(0.9, t)) / ((v / (1 - std::pow(0.999, t))).sqrt() + 1e-7);
    expected = expected - kVariableRate * expected.norm() / u.norm() * u;
    lamb.apply_gradients({g}, {w});
    EXPECT_TRUE(at::allclose(w, expected, 1e-9, 1e-12)) << t;
  }
  const Tensor zero = at::zeros({2}, at::kDouble);  // a ratio of 1
  Lamb({.learning_rate = kVariableRate}).apply_gradients({at::ones({2}, at::kDouble)}, {zero});
  EXPECT_NEAR(zero[0].item<double>(), -kVariableRate, 1e-6);
}

TEST(ScheduleFreeAdamW, FollowsItsFormula) {
  const Tensor w = start();
  const ScheduleFreeAdamW optimizer({.learning_rate = kVariableRate, .warmup_steps = 3});
  Tensor z = start(), x = start(), v = at::zeros_like(w), y = start();
  for (int t = 1; t <= kUpdates; ++t) {
    const Tensor g = gradient_of_update(t);
    v = 0.999 * v + 0.001 * g * g;
    z = z - kVariableRate * std::min(t / 3.0, 1.0) * g / ((v / (1 - std::pow(0.999, t))).sqrt() + 1e-8);
    x = (1 - 1.0 / t) * x + z / t;
    y = 0.1 * z + 0.9 * x;
    optimizer.apply_gradients({g}, {w});
    EXPECT_TRUE(at::allclose(w, y, 1e-9, 1e-12)) << t;
  }
  optimizer.swap_to_eval();
  EXPECT_TRUE(at::allclose(w, x, 1e-9, 1e-12));
  optimizer.swap_to_train();
  EXPECT_TRUE(at::allclose(w, y, 1e-9, 1e-12));
}

Tensor orthogonalized(Tensor x) {
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x = x / (x.norm() + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const Tensor a = at::matmul(x, x.t());
    x = 3.4445 * x + at::matmul(-4.7750 * a + 2.0315 * at::matmul(a, a), x);
  }
  return tall ? x.t() : x;
}

TEST(Muon, FollowsItsFormula) {
  for (const bool tall : {false, true}) {
    const Tensor w = tall ? start().t().contiguous() : start();
    Tensor expected = w.clone(), m = at::zeros_like(w);
    const Muon muon({.learning_rate = kVariableRate});
    for (int t = 1; t <= kUpdates; ++t) {
      const Tensor g =
          (tall ? gradient_of_update(t).t() : gradient_of_update(t)) + at::eye(w.size(0), w.size(1), at::kDouble);
      m = 0.95 * m + g;
      expected =
          expected * (1 - 0.004 * kVariableRate) - kVariableRate * 0.2 * std::sqrt(3) * orthogonalized(g + 0.95 * m);
      muon.apply_gradients({g}, {w});
      EXPECT_TRUE(at::allclose(w, expected, 1e-7, 1e-9)) << t;
    }
  }
}

TEST(Muon, LeavesWhatIsNoMatrixToAdamW) {
  const Tensor bias = at::ones({3}, at::kDouble), table = start(), head = start();
  set_path(table, "model/embedding/embeddings");
  set_path(head, "model/head/kernel");
  const Muon muon({.learning_rate = kVariableRate, .exclude_layers = {"head"}});
  const AdamW adamw({.learning_rate = kVariableRate});
  const Tensor other_bias = bias.clone(), other_table = table.clone(), other_head = head.clone();
  for (int t = 1; t <= kUpdates; ++t) {
    const Tensor g = gradient_of_update(t);
    muon.apply_gradients({g[0], g, g}, {bias, table, head});
    adamw.apply_gradients({g[0], g, g}, {other_bias, other_table, other_head});
  }
  EXPECT_TRUE(at::allclose(bias, other_bias, 1e-9, 1e-12));
  EXPECT_TRUE(at::allclose(table, other_table, 1e-9, 1e-12));
  EXPECT_TRUE(at::allclose(head, other_head, 1e-9, 1e-12));
}

TEST(WeightDecay, MayBeExcludedByName) {
  const Sequential model({layers::Dense({.units = 2, .bias_initializer = initializers::Ones()})});
  const SGD sgd({.learning_rate = 0.1, .weight_decay = 0.5});
  sgd.exclude_from_weight_decay_by_name({"bias", "gamma"});
  model.build({kUnknown, 3});
  EXPECT_EQ(path_of(model.weights()[1].value), "dense/bias");
  const std::vector<Tensor> before = model.get_weights(), variables = model.trainable_variables();
  sgd.apply_gradients({at::zeros({3, 2}), at::zeros({2})}, variables);
  EXPECT_TRUE(at::allclose(model.get_weights()[0], before[0] * 0.95));
  EXPECT_TRUE(at::allclose(model.get_weights()[1], before[1]));
}

TEST(ModelsOf, EachOptimizerTrain) {
  for (const char* name : {"lamb", "muon", "ScheduleFreeAdamW"}) {
    const Sequential model({layers::Dense({.units = 8, .activation = activations::tanh}), layers::Dense({.units = 1})});
    const Optimizer optimizer = name;
    optimizer.set_learning_rate(0.01);
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const Tensor x = at::randn({64, 3}), y = x.sum(1, true);
    const History history = model.fit(x, y, {.epochs = 20, .verbose = Verbose::silent});
    EXPECT_LT(history.history.at("loss").back(), 0.8 * history.history.at("loss").front()) << name;
  }
  EXPECT_THAT(error_of([] { ScheduleFreeAdamW({.beta_1 = 0}); }), HasSubstr("beta_1 is 0; it must be in (0, 1]"));
}

}  // namespace
}  // namespace tutti::keras::optimizers
