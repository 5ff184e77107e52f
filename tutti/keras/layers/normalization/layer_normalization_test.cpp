#include "tutti/keras/layers/normalization/layer_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/error_of.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/layers/normalization/group_normalization.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

Tensor normalized(const Tensor& x, at::IntArrayRef axes, double epsilon) {
  const Tensor centered = x - x.mean(axes, true);
  return centered / (centered.square().mean(axes, true) + epsilon).sqrt();
}

TEST(LayerNormalization, IsItsFormulaOverAnyAxes) {
  const Tensor x = at::randn({2, 3, 4, 5}) * 3 + 1;
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{-1}, {3, 2}, {1}, {-1, 1}}) {
    const LayerNormalization layer({.axis = axes});
    EXPECT_TRUE(at::allclose(layer(x), normalized(x, axes, 1e-3), 1e-4, 1e-5)) << axes[0];
  }
}

TEST(LayerNormalization, ScalesAndShiftsEachElementOfItsAxes) {
  const Tensor x = at::randn({2, 3, 4, 5});
  const Tensor gamma = at::randn({3, 5}), beta = at::randn({3, 5});
  const LayerNormalization layer({.axis = {3, 1}});
  layer.build({kUnknown, 3, kUnknown, 5});
  layer.set_weights({gamma, beta});
  const Tensor expected = normalized(x, {1, 3}, 1e-3) * gamma.view({1, 3, 1, 5}) + beta.view({1, 3, 1, 5});
  EXPECT_TRUE(at::allclose(layer(x), expected, 1e-4, 1e-5));
  EXPECT_EQ(LayerNormalization({.center = false}).name(), "layer_normalization");
}

TEST(LayerNormalization, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] {
                LayerNormalization({.axis = {2}}).build({kUnknown, 3});
              }),
              HasSubstr("layer_normalization: the input has shape (None, 3), which has no axis 2"));
  EXPECT_THAT(error_of([] { LayerNormalization({.axis = {1, -1}}).build({kUnknown, 3}); }), HasSubstr("none twice"));
  EXPECT_THAT(error_of([] { LayerNormalization().build({kUnknown, kUnknown}); }), HasSubstr("must be known"));
  const LayerNormalization layer;
  layer(at::zeros({2, 3}));
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 4})); }), HasSubstr("built for extents [3]"));
}

TEST(RMSNormalization, DividesByTheRootMeanSquare) {
  const Tensor x = at::randn({2, 3, 4});
  const RMSNormalization layer({.axis = {1}});
  layer.build({kUnknown, 3, 4});
  EXPECT_EQ(layer.weights()[0].name, "scale");
  const Tensor scale = at::randn({3});
  layer.set_weights({scale});
  const Tensor expected = x / (x.square().mean(1, true) + 1e-6).sqrt() * scale.view({1, 3, 1});
  EXPECT_TRUE(at::allclose(layer(x), expected, 1e-4, 1e-5));
}

// The squares of such numbers are infinite in float16.
TEST(HalfPrecision, NormalizesLargeNumbers) {
  const Tensor x = at::randn({2, 6, 4}) * 3000 + 300;
  const std::vector<std::function<Layer()>> makers{
      [] { return LayerNormalization(); }, [] { return LayerNormalization({.axis = {1}}); },
      [] { return RMSNormalization(); },   [] { return RMSNormalization({.axis = {1}}); },
      [] { return UnitNormalization(); },  [] { return GroupNormalization({.groups = 2}); }};
  for (const auto& make : makers)
    for (const DTypePolicy policy : {DTypePolicy::float16, DTypePolicy::bfloat16, DTypePolicy::mixed_float16}) {
      const Layer layer = make();
      const DTypePolicyGuard guard(policy);
      const Tensor y = make()(x);
      EXPECT_EQ(y.scalar_type(), *compute_dtype(policy)) << layer.name();
      EXPECT_TRUE(at::allclose(y.to(at::kFloat), layer(x), 0.02, 0.02)) << layer.name();
    }
}

TEST(UnitNormalization, HasUnitNormsAndLeavesZerosFinite) {
  const Tensor x = at::randn({2, 3, 4});
  const Tensor y = UnitNormalization({.axis = {1, 2}})(x);
  EXPECT_TRUE(at::allclose(y, x / x.norm(2, {1, 2}, true)));
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16})
    EXPECT_EQ(UnitNormalization()(at::zeros({2, 3}, dtype)).abs().sum().item<double>(), 0);
}

TEST(GroupNormalization, NormalizesNeighbouringChannelsTogether) {
  const Tensor x = at::randn({2, 3, 5, 6}) * 2 + 1;
  const GroupNormalization layer({.groups = 2});
  const Tensor grouped = x.view({2, 3, 5, 2, 3});
  EXPECT_TRUE(at::allclose(layer(x), normalized(grouped, {1, 2, 4}, 1e-3).view_as(x), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(GroupNormalization({.groups = -1})(x), normalized(x, {1, 2}, 1e-3), 1e-4, 1e-5));
  EXPECT_TRUE(
      at::allclose(GroupNormalization({.groups = 1, .axis = 1})(x), normalized(x, {1, 2, 3}, 1e-3), 1e-4, 1e-5));
}

// As those of a model's first layer.
TEST(GroupNormalization, HasGradientsToItsWeightsAlone) {
  const Tensor x = at::randn({2, 7, 6, 4}), weights = at::randn({2, 7, 6, 4});
  const GroupNormalization layer({.groups = 2});
  const Tensor y = layer(x);
  const std::vector<Tensor> slopes = gradients((y * weights).sum(), layer.trainable_variables());
  EXPECT_TRUE(at::allclose(slopes[0], (y * weights).sum({0, 1, 2}), 1e-4, 1e-4));  // gamma is 1, beta 0
  EXPECT_TRUE(at::allclose(slopes[1], weights.sum({0, 1, 2}), 1e-4, 1e-4));
}

TEST(GroupNormalization, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { GroupNormalization({.groups = 0}); }), HasSubstr("groups is 0"));
  EXPECT_THAT(error_of([] { GroupNormalization().build({kUnknown, 8}); }), HasSubstr("divide into 32 groups"));
  EXPECT_THAT(error_of([] { GroupNormalization({.axis = 0}).build({kUnknown, 8}); }), HasSubstr("after the batch"));
}

}  // namespace
}  // namespace tutti::keras::layers
