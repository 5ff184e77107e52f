#include "tutti/keras/layers/core/dense.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Dense, IsActivationOfProductPlusBias) {
  const Dense dense({.units = 2, .activation = activations::relu, .bias_initializer = initializers::Constant(0.5)});
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 5, 3}, Shape{0, 3}}) {
    const Tensor x = at::randn(shape);
    const Tensor y = dense(x);
    EXPECT_TRUE(at::allclose(y, (x.matmul(dense.weights()[0].value) + 0.5).relu(), 1e-5, 1e-6)) << to_string(shape);
    EXPECT_EQ(y.sizes(), dense.compute_output_shape(shape));
  }
}

TEST(Dense, HasKernelInOutAndZeroBias) {
  const Dense dense({.units = 2});
  dense.build({kUnknown, 3});
  EXPECT_EQ(dense.weights()[0].name, "kernel");
  EXPECT_EQ(dense.weights()[0].value.sizes(), (Shape{3, 2}));
  EXPECT_EQ(dense.weights()[1].name, "bias");
  EXPECT_EQ(dense.weights()[1].value.abs().sum().item<double>(), 0);
}

TEST(Dense, CanDoWithoutBias) {
  const Dense dense({.units = 2, .use_bias = false});
  const Tensor x = at::randn({4, 3});
  const Tensor y = dense(x);
  EXPECT_TRUE(at::allclose(y, x.matmul(dense.weights()[0].value)));
  EXPECT_EQ(dense.weights().size(), 1U);
}

TEST(Dense, ReportsThePenaltiesOfItsRegularizers) {
  const Dense dense({.units = 2,
                     .kernel_initializer = initializers::Constant(-2),
                     .bias_initializer = initializers::Ones(),
                     .kernel_regularizer = regularizers::L1L2({.l1 = 0.1, .l2 = 0.01}),
                     .bias_regularizer = regularizers::L2(0.5)});
  dense.build({kUnknown, 3});
  ASSERT_EQ(dense.losses().size(), 2U);
  EXPECT_NEAR(dense.losses()[0].item<double>(), 0.1 * 12 + 0.01 * 24, 1e-6);
  EXPECT_NEAR(dense.losses()[1].item<double>(), 0.5 * 2, 1e-6);
}

TEST(Dense, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { Dense({.units = 0}); }), HasSubstr("invalid_argument: dense: units is 0"));
  const Dense dense({.units = 2, .name = "head"});
  EXPECT_THAT(error_of([&] { dense(at::randn({3})); }), HasSubstr("head: the input has shape (3,)"));
  dense(at::randn({4, 3}));
  EXPECT_THAT(error_of([&] {
                dense(at::randn({4, 5}));
              }),
              HasSubstr("head: the input has shape (4, 5); the layer was built for a last extent of 3"));
  EXPECT_THAT(error_of([] { Dense({.units = 2}).build({kUnknown, kUnknown}); }), HasSubstr("must be known"));
}

}  // namespace
}  // namespace tutti::keras::layers
