#include "tutti/keras/constraints.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tutti/distribute/gradients.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::keras::constraints {
namespace {

// Columns of norms 5, 1 and 0.
Tensor weight() { return at::tensor({3.0, 0.6, 0.0, -4.0, 0.8, 0.0}).view({2, 3}); }
Tensor norms(const Tensor& w, int64_t axis = 0) { return w.square().sum(axis).sqrt(); }

TEST(Constraints, BoundTheNormsOfColumns) {
  EXPECT_TRUE(at::allclose(norms(MaxNorm()(weight())), at::tensor({2.0, 1.0, 0.0})));
  EXPECT_TRUE(at::allclose(norms(MaxNorm({.max_value = 0.5})(weight())), at::tensor({0.5, 0.5, 0.0}), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(norms(UnitNorm()(weight())), at::tensor({1.0, 1.0, 0.0}), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(norms(MinMaxNorm({.min_value = 2, .max_value = 3})(weight())), at::tensor({3.0, 2.0, 0.0}),
                           1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(norms(MinMaxNorm({.min_value = 2, .max_value = 3, .rate = 0.5})(weight())),
                           at::tensor({4.0, 1.5, 0.0}), 1e-5, 1e-6));
}

TEST(Constraints, GoOverTheirAxes) {
  EXPECT_TRUE(at::allclose(norms(UnitNorm({.axis = {1}})(weight()), 1), at::tensor({1.0, 1.0})));
  EXPECT_NEAR(UnitNorm({.axis = {0, 1}})(weight()).norm().item<double>(), 1, 1e-6);
}

TEST(Constraints, NonNegTakesNegativesAway) {
  EXPECT_TRUE(at::allclose(NonNeg()(weight()), at::tensor({3.0, 0.6, 0.0, 0.0, 0.8, 0.0}).view({2, 3})));
}

TEST(Constraints, AreKeptWithTheirWeight) {
  const layers::Dense dense({.units = 2, .kernel_constraint = NonNeg(), .bias_constraint = MaxNorm()});
  dense.build({kUnknown, 3});
  ASSERT_TRUE(dense.weights()[0].constraint && dense.weights()[1].constraint);
  EXPECT_EQ(dense.weights()[0].constraint->name(), "non_neg");
  EXPECT_EQ(dense.weights()[1].constraint->name(), "max_norm");
}

TEST(Constraints, HoldAfterAnUpdateInALoopOfOnesOwn) {
  for (const bool scales : {false, true}) {
    const layers::Dense dense(
        {.units = 2, .kernel_initializer = initializers::Constant(5), .kernel_constraint = MaxNorm({.max_value = 1})});
    dense.build({kUnknown, 3});
    const optimizers::SGD sgd({.learning_rate = 0.01});
    const optimizers::Optimizer optimizer = scales ? optimizers::LossScaleOptimizer(sgd) : optimizers::Optimizer(sgd);
    const Tensor loss = optimizer.scale_loss(dense(at::ones({4, 3})).square().mean());
    const std::vector<Tensor> variables = dense.trainable_variables();
    optimizer.apply_gradients(gradients(loss, variables), variables);
    EXPECT_NEAR(dense.get_weights()[0].norm(2, {0}).max().item<double>(), 1, 1e-5);
  }
}

}  // namespace
}  // namespace tutti::keras::constraints
