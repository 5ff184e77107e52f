#include "tutti/keras/layers/preprocessing/normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/data/dataset_functions.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Normalization adapted_normalization(const NormalizationOptions& options, const Tensor& x) {
  Normalization layer(options);
  layer.adapt(x);
  return layer;
}

Tensor features() { return at::tensor({0., 7., 4., 2., 9., 6., 0., 7., 4., 2., 9., 6.}, at::kFloat).reshape({4, 3}); }

// The examples of Keras's documentation.
TEST(Normalization, LearnsOneMeanForAll) {
  const Normalization layer = adapted_normalization({.axis = {}}, at::arange(1., 6.));
  EXPECT_TRUE(at::allclose(layer(at::arange(1., 4.)), at::tensor({-1.4142135, -0.70710677, 0.}, at::kFloat)));
}

TEST(Normalization, LearnsAMeanForEachFeature) {
  const Normalization layer = adapted_normalization({}, features());
  EXPECT_TRUE(at::allclose(layer(features().narrow(0, 0, 1)), at::tensor({-1., -1., -1.}, at::kFloat)));
  ASSERT_EQ(layer.weights().size(), 3U);
  EXPECT_EQ(layer.weights()[0].name, "mean");
  EXPECT_EQ(layer.weights()[1].name, "variance");
  EXPECT_EQ(layer.weights()[2].value.item<double>(), 4);
  EXPECT_TRUE(layer.trainable_variables().empty());
}

TEST(Normalization, TakesGivenNumbers) {
  const Normalization one({.mean = at::tensor(3.), .variance = at::tensor(2.)});
  EXPECT_TRUE(at::allclose(one(at::arange(1, 4).unsqueeze(1)),
                           at::tensor({-1.4142135, -0.70710677, 0.}, at::kFloat).unsqueeze(1)));
  const Normalization each({.mean = at::tensor({1., 2.}), .variance = at::tensor({4., 9.})});
  EXPECT_TRUE(at::allclose(each(at::tensor({5., 5.}).reshape({1, 2})), at::tensor({2., 1.}).reshape({1, 2})));
  EXPECT_TRUE(each.weights().empty());
}

TEST(Normalization, InvertsItself) {
  const Tensor input = at::tensor({1., 2., 3.}, at::kFloat).reshape({1, 3});
  EXPECT_TRUE(
      at::allclose(adapted_normalization({.invert = true}, features())(input), at::tensor({2., 10., 8.}, at::kFloat)));
  const Tensor x = at::randn({5, 3});
  EXPECT_TRUE(at::allclose(
      adapted_normalization({.invert = true}, features())(adapted_normalization({}, features())(x)), x, 1e-5, 1e-6));
}

TEST(Normalization, KeepsSeveralAxes) {
  const Tensor x = at::randn({6, 2, 5, 3}, at::kDouble);
  const Normalization layer = adapted_normalization({.axis = {-1, 1}}, x);
  const Tensor mean = x.mean(at::IntArrayRef{0, 2}, true), variance = x.var(at::IntArrayRef{0, 2}, false, true);
  EXPECT_EQ(layer.weights()[0].value.sizes(), (Shape{2, 3}));
  EXPECT_TRUE(at::allclose(layer(x), (x - mean) / variance.sqrt(), 1e-5, 1e-6));
  EXPECT_EQ(layer(x).scalar_type(), at::kDouble);
}

TEST(Normalization, AdaptingBatchByBatchIsAdaptingToAll) {
  const Tensor x = at::randn({100, 3}) * 5 + 1000;
  Normalization layer;
  layer.adapt(data::from_tensor_slices(x).batch(33));
  const Normalization whole = adapted_normalization({}, x);
  EXPECT_TRUE(at::allclose(layer.weights()[0].value, whole.weights()[0].value, 1e-7, 0));
  EXPECT_TRUE(at::allclose(layer.weights()[1].value, whole.weights()[1].value, 1e-6, 0));
  EXPECT_EQ(layer.weights()[2].value.item<double>(), 100);
}

TEST(Normalization, MapsADataset) {
  const Normalization layer = adapted_normalization({}, features());
  for (const Tensor& x : data::from_tensor_slices(features()).batch(2).map(layer))
    EXPECT_TRUE(at::allclose(x.abs(), at::zeros({2, 3}) + 1));
}

TEST(Normalization, AConstantFeatureStaysFinite) {
  const Tensor x = at::zeros({4, 1}) + 7;
  EXPECT_EQ(adapted_normalization({}, x)(x).abs().sum().item<double>(), 0);
}

TEST(Normalization, RefusesWhatDoesNotFit) {
  const auto refused = [](const NormalizationOptions& options) {
    return error_of([&] { Normalization layer(options); });
  };
  EXPECT_THAT(refused({.mean = at::tensor(1.)}), StartsWith("invalid_argument: normalization: mean and variance must"));
  EXPECT_THAT(refused({.mean = at::zeros({2}), .variance = at::zeros({3})}), HasSubstr("the shapes must be equal"));
  EXPECT_THAT(refused({.axis = {}, .mean = at::zeros({2}), .variance = at::zeros({2})}),
              HasSubstr("one axis for each"));
  Normalization layer;
  EXPECT_THAT(error_of([&] {
                layer.build({kUnknown, kUnknown});
              }),
              HasSubstr("its extent along axis -1 must be known"));
  layer.adapt(features());
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 4})); }), HasSubstr("built for extents [3] along axis [-1]"));
  EXPECT_THAT(error_of([&] { layer.adapt(at::zeros({2, 4})); }), HasSubstr("built for extents [3]"));
  EXPECT_THAT(error_of([&] {
                layer.adapt(at::zeros({0, 3}));
              }),
              StartsWith("failed_precondition: normalization: adapt"));
  EXPECT_THAT(error_of([] { Normalization({.axis = {2}}).build({kUnknown, 3}); }), HasSubstr("axis 2 is not one of"));
  Normalization given({.mean = at::zeros({2}), .variance = at::zeros({2})});
  EXPECT_THAT(error_of([&] { given.build({kUnknown, 3}); }), HasSubstr("mean has shape (2,); the input's kept axes"));
  EXPECT_THAT(error_of([&] { given.adapt(features()); }), HasSubstr("would replace the mean"));
}

TEST(Rescaling, ScalesAndMoves) {
  const Rescaling layer({.scale = 1. / 127.5, .offset = -1});
  const Tensor pixels = layer(at::tensor({0, 255, 51}, at::kByte));
  EXPECT_EQ(pixels.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(pixels, at::tensor({-1., 1., -0.6}, at::kFloat)));
  EXPECT_EQ(layer(at::zeros({1}, at::kDouble)).scalar_type(), at::kDouble);
}

}  // namespace
}  // namespace tutti::keras::layers
