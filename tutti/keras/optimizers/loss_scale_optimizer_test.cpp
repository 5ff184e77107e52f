#include "tutti/keras/optimizers/loss_scale_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/test_devices.h"
#include "tests/support/three_replicas.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras::optimizers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One update from the gradient of scale_loss(factor * sum(w)).
void train(const Optimizer& optimizer, const Tensor& w, double factor) {
  optimizer.apply_gradients(gradients(optimizer.scale_loss((w * factor).sum()), {w}), {w});
}

TEST(LossScaleOptimizer, AppliesTheGradientsOfTheLoss) {
  const Tensor w = at::ones({2}).requires_grad_();
  const LossScaleOptimizer optimizer(SGD({.learning_rate = 0.5, .clipnorm = 2, .loss_scale_factor = 7}));
  EXPECT_EQ(optimizer.scale_loss(at::ones({})).item<double>(), 32768);
  EXPECT_TRUE(optimizer.scales_loss());
  train(optimizer, w, 1);
  EXPECT_TRUE(at::allclose(w, at::full({2}, 0.5)));
  EXPECT_EQ(optimizer.iterations(), 1);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
}

TEST(LossScaleOptimizer, SkipsWhatIsNotFiniteAndHalvesTheScale) {
  const Tensor w = at::ones({20}).requires_grad_();
  const LossScaleOptimizer optimizer(SGD({.learning_rate = 1, .momentum = 0.5}), {.initial_scale = 8});
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    const Tensor gradient = at::ones({20});
    gradient[17] = bad;
    optimizer.apply_gradients({gradient}, {w});
  }
  EXPECT_TRUE(at::equal(w, at::ones({20})));
  EXPECT_EQ(optimizer.dynamic_scale(), 1);
  EXPECT_EQ(optimizer.iterations(), 0);
  train(optimizer, w, 1);
  EXPECT_TRUE(at::equal(w, at::zeros({20})));
}

TEST(LossScaleOptimizer, DoublesTheScaleAfterEnoughGoodUpdatesInARow) {
  const Tensor w = at::ones({2}).requires_grad_();
  const LossScaleOptimizer optimizer(SGD(), {.initial_scale = 4, .dynamic_growth_steps = 2});
  std::vector<double> scales;
  for (const double factor : {1.0, double(NAN), 1.0, 1.0, 1.0, 1.0}) {
    train(optimizer, w, factor);
    scales.push_back(optimizer.dynamic_scale());
  }
  EXPECT_THAT(scales, ElementsAre(4, 2, 2, 4, 4, 8));
}

TEST(LossScaleOptimizer, FindsWhatIsNotFiniteInEveryDtype) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const Tensor w = at::ones({3}, dtype), largest = at::full({3}, 60000.0, dtype);
    const LossScaleOptimizer optimizer(SGD({.learning_rate = 0.0}));
    optimizer.apply_gradients({largest}, {w});
    EXPECT_EQ(optimizer.iterations(), 1) << dtype;
    optimizer.apply_gradients({largest / 0}, {w});
    EXPECT_EQ(optimizer.iterations(), 1) << dtype;
  }
}

TEST(LossScaleOptimizer, ScalesSmallLossesInFloat) {
  const LossScaleOptimizer optimizer{SGD()};
  EXPECT_EQ(optimizer.scale_loss(at::full({}, 4, at::kHalf)).item<double>(), 4 * 32768);
}

TEST(LossScaleOptimizer, WarnsWhereNoOverflowExplainsIt) {
  const CollectedWarnings warnings;
  const LossScaleOptimizer optimizer(SGD(), {.initial_scale = 2});
  const Tensor w = at::ones({2}).requires_grad_();
  for (int step = 0; step < 4; ++step) train(optimizer, w, NAN);
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("not finite at a loss scale of 1")));
}

TEST(LossScaleOptimizer, RefusesOptionsOutOfRange) {
  EXPECT_THAT(error_of([] { LossScaleOptimizer(SGD(), {.initial_scale = 0}); }), HasSubstr("initial_scale is 0"));
  EXPECT_THAT(error_of([] { LossScaleOptimizer(SGD(), {.dynamic_growth_steps = 0}); }), HasSubstr("must be positive"));
}

using LossScaleOptimizerOnReplicas = ThreeReplicas;

TEST_F(LossScaleOptimizerOnReplicas, DecidesOnceForAll) {
  const Tensor w = strategy.build([] { return at::ones({2}).requires_grad_(); });
  const LossScaleOptimizer optimizer(SGD({.learning_rate = 1}), {.initial_scale = 4});
  strategy.run([&] { train(optimizer, w, replica() == 1 ? INFINITY : 1); });
  EXPECT_TRUE(at::equal(gather(w.detach()), at::ones({2})));
  EXPECT_EQ(optimizer.dynamic_scale(), 2);
  strategy.run([&] { train(optimizer, w, 1); });
  EXPECT_TRUE(at::equal(gather(w.detach()), at::full({2}, -2.0)));
  EXPECT_EQ(optimizer.iterations(), 1);
}

TEST_F(LossScaleOptimizerOnReplicas, TakesSparseGradients) {
  const auto make = [] { return at::ones({4, 2}).requires_grad_(); };
  for (const Tensor& table : {make(), strategy.build(make)}) {
    const LossScaleOptimizer optimizer(SGD({.learning_rate = 1}), {.initial_scale = 4});
    const auto step = [&](double factor) {
      const Tensor rows = at::embedding(table, moved(at::tensor({2, 0, 2})), -1, false, /*sparse=*/true);
      optimizer.apply_gradients(gradients(optimizer.scale_loss(rows.sum() * factor), {table}), {table});
    };
    const auto call = [&](double factor) {
      is_mesh_tensor(table) ? strategy.run([&] { step(factor / 3); }) : step(factor);
    };
    call(INFINITY);
    EXPECT_TRUE(at::equal(gather(table.detach()), at::ones({4, 2})));
    EXPECT_EQ(optimizer.dynamic_scale(), 2);
    call(1);
    EXPECT_TRUE(at::allclose(gather(table.detach()).select(1, 0), moved(at::tensor({0., 1., -1., 1.}, at::kFloat))));
  }
}

}  // namespace
}  // namespace tutti::keras::optimizers
