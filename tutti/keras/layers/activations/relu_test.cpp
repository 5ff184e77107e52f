#include "tutti/keras/layers/activations/relu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/activations/activation.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(LinearUnits, HaveKerassDefaults) {
  const Tensor x = at::tensor({-2.0, 0.5});
  EXPECT_TRUE(at::allclose(LeakyReLU()(x), at::tensor({-0.6, 0.5})));
  EXPECT_TRUE(at::allclose(ELU()(x), at::tensor({std::expm1(-2.0), 0.5})));
  EXPECT_TRUE(at::allclose(ReLU({.threshold = 0.5})(x), at::tensor({0.0, 0.0})));
  EXPECT_EQ(LeakyReLU().name(), "leaky_re_lu");
  EXPECT_EQ(PReLU().name(), "p_re_lu");
  EXPECT_EQ(ELU().name(), "elu");
}

TEST(PReLU, HasASlopeForEachElementOrSharesIt) {
  const Tensor x = at::randn({2, 3, 4});
  const PReLU each, shared({.shared_axes = {1}});
  each.build({kUnknown, 3, 4});
  shared.build({kUnknown, kUnknown, 4});
  EXPECT_EQ(each.weights()[0].value.sizes(), (Shape{3, 4}));
  EXPECT_EQ(shared.weights()[0].value.sizes(), (Shape{1, 4}));
  const Tensor slopes = at::randn({1, 4});
  shared.set_weights({slopes});
  each.set_weights({slopes.expand({3, 4})});
  EXPECT_TRUE(at::allclose(shared(x), x.clamp_min(0) + slopes * x.clamp_max(0)));
  EXPECT_TRUE(at::allclose(each(x), shared(x)));
}

TEST(Softmax, CountsNothingThatAMaskHides) {
  const Tensor x = at::randn({2, 3});
  const Tensor mask = at::tensor({1, 0, 1, 0, 0, 0}).to(at::kBool).view({2, 3});
  const Tensor y = Softmax()(x, {.masks = {mask}});
  EXPECT_TRUE(at::allclose(y[0], at::stack({x[0][0], at::full({}, -1e9), x[0][2]}).softmax(0)));
  EXPECT_EQ(y[1].abs().sum().item<double>(), 0);
  EXPECT_THAT(error_of([&] {
                Softmax()(at::randn({2, 3, 4}), {.masks = {mask}});
              }),
              HasSubstr("the mask has shape (2, 3); it cannot be repeated to the input's, (2, 3, 4)"));
  EXPECT_THAT(error_of([] { Softmax({.axis = 2}).build({kUnknown, 3}); }), HasSubstr("has no axis 2"));
}

TEST(LinearUnits, RefuseWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { ReLU({.max_value = -1}); }), HasSubstr("re_lu: max_value -1"));
  EXPECT_THAT(error_of([] { LeakyReLU({.negative_slope = -1, .name = "leak"}); }),
              HasSubstr("leak: negative_slope is -1"));
  EXPECT_THAT(error_of([] { PReLU({.shared_axes = {0}}); }), HasSubstr("axes count from 1"));
  EXPECT_THAT(error_of([] {
                PReLU({.shared_axes = {2}}).build({kUnknown, 3});
              }),
              HasSubstr("lacks one of shared_axes"));
  EXPECT_THAT(error_of([] { PReLU().build({kUnknown, kUnknown}); }), HasSubstr("must be one of shared_axes"));
  const PReLU layer;
  layer(at::randn({2, 3}));
  EXPECT_THAT(error_of([&] { layer(at::randn({2, 4})); }), HasSubstr("built for slopes of shape (3,)"));
}

}  // namespace
}  // namespace tutti::keras::layers
