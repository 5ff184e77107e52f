#include "tutti/keras/layers/pooling/pooling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/pooling/adaptive_pooling.h"
#include "tutti/keras/layers/pooling/global_pooling.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> pooled_row(const Tensor& row, const MaxPooling2DOptions& options) {
  const Tensor y = MaxPooling2D(options)(row.view({1, 1, -1, 1})).flatten();
  return {y.const_data_ptr<float>(), y.const_data_ptr<float>() + y.numel()};
}

TEST(MaxPooling2D, TakesTheLargestOfEachWindow) {
  const Tensor row = at::arange(7, at::kFloat);
  EXPECT_THAT(pooled_row(row, {.pool_size = {1, 2}}), ElementsAre(1, 3, 5));
  EXPECT_THAT(pooled_row(row, {.pool_size = {1, 3}, .strides = {1, 2}}), ElementsAre(2, 4, 6));
  EXPECT_THAT(pooled_row(row, {.pool_size = {1, 2}, .padding = Padding::same}), ElementsAre(1, 3, 5, 6));
}

TEST(MaxPooling2D, PaddingNeverWins) {
  EXPECT_THAT(pooled_row(at::full({3}, -5.0), {.pool_size = {1, 2}, .padding = Padding::same}), ElementsAre(-5, -5));
  EXPECT_THAT(pooled_row(at::full({3}, -5.0), {.pool_size = {1, 3}, .padding = Padding::same}), ElementsAre(-5));
}

TEST(MaxPooling2D, PoolsChannelsApartAndStaysChannelsLast) {
  const Tensor x = at::randn({2, 4, 6, 3});
  const Tensor y = MaxPooling2D()(x);
  EXPECT_TRUE(at::allclose(y, x.view({2, 2, 2, 3, 2, 3}).amax({2, 4})));
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(MaxPooling2D().compute_output_shape({kUnknown, 5, kUnknown, 3}), (Shape{kUnknown, 2, kUnknown, 3}));
}

TEST(AveragePooling2D, DoesNotCountPadding) {
  const auto row = [](const AveragePooling2DOptions& options) {
    const Tensor y = AveragePooling2D(options)(at::arange(1, 6, at::kFloat).view({1, 1, -1, 1})).flatten();
    return std::vector<float>(y.const_data_ptr<float>(), y.const_data_ptr<float>() + y.numel());
  };
  EXPECT_THAT(row({.pool_size = {1, 2}}), ElementsAre(1.5, 3.5));
  EXPECT_THAT(row({.pool_size = {1, 3}, .strides = {1, 1}, .padding = Padding::same}), ElementsAre(1.5, 2, 3, 4, 4.5));
  EXPECT_THAT(row({.pool_size = {1, 2}, .padding = Padding::same}), ElementsAre(1.5, 3.5, 5));
  EXPECT_THAT(row({.pool_size = {1, 4}, .strides = {1, 2}, .padding = Padding::same}), ElementsAre(2, 3.5, 4.5));
}

TEST(Pooling, OfOtherRanksIsThatOfLibTorch) {
  const Tensor sequence = at::randn({2, 7, 3});
  EXPECT_TRUE(at::equal(MaxPooling1D()(sequence), at::max_pool1d(sequence.mT(), 2).mT()));
  EXPECT_TRUE(at::allclose(AveragePooling1D()(sequence), at::avg_pool1d(sequence.mT(), 2).mT()));
  const Tensor volume = at::randn({2, 4, 5, 6, 3});
  const Tensor volume_first = volume.permute({0, 4, 1, 2, 3}).contiguous();
  EXPECT_TRUE(at::equal(MaxPooling3D()(volume), at::max_pool3d(volume_first, 2).permute({0, 2, 3, 4, 1})));
  EXPECT_TRUE(at::allclose(AveragePooling3D()(volume), at::avg_pool3d(volume_first, 2).permute({0, 2, 3, 4, 1})));
}

TEST(AdaptivePooling, DividesEachAxisAmongItsWindows) {
  const Tensor x = at::arange(7, at::kFloat).view({1, 7, 1});  // windows [0, 3), [2, 5), [4, 7)
  const Tensor means = AdaptiveAveragePooling1D({.output_size = {3}})(x);
  EXPECT_TRUE(at::allclose(means.flatten(), at::tensor({1.0F, 3.0F, 5.0F})));
  const Tensor images = x.view({1, 1, 7, 1});
  EXPECT_TRUE(
      at::equal(AdaptiveMaxPooling2D({.output_size = {1, 3}})(images).flatten(), at::tensor({2.0F, 4.0F, 6.0F})));
  EXPECT_THAT(error_of([] { AdaptiveMaxPooling1D({}); }), HasSubstr("adaptive_max_pooling1d: output_size is [0]"));
}

TEST(GlobalPooling, GoesOverAllSpatialAxes) {
  const Tensor x = at::randn({2, 4, 6, 3});
  EXPECT_TRUE(at::allclose(GlobalAveragePooling2D()(x), x.view({2, 24, 3}).mean(1)));
  EXPECT_TRUE(at::equal(GlobalMaxPooling2D({.keepdims = true})(x), x.view({2, 1, 1, 24, 3}).amax(3)));
  EXPECT_EQ(GlobalMaxPooling3D().name(), "global_max_pooling3d");
  EXPECT_THAT(error_of([&] { GlobalAveragePooling1D()(x); }), HasSubstr("it must be [batch, steps, channels]"));
}

TEST(GlobalAveragePooling1D, CountsTheStepsThatAMaskShows) {
  const Tensor x = at::randn({2, 3, 4});
  const Tensor mask = at::tensor({1, 0, 1, 0, 0, 0}).to(at::kBool).view({2, 3});
  const Tensor y = GlobalAveragePooling1D()(x, {.masks = {mask}});
  EXPECT_TRUE(at::allclose(y[0], (x[0][0] + x[0][2]) / 2));
  EXPECT_EQ(y[1].abs().sum().item<double>(), 0);
  EXPECT_FALSE(GlobalAveragePooling1D().compute_mask(x, mask).defined());
}

TEST(MaxPooling2D, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { MaxPooling2D({.pool_size = {0, 2}}); }), HasSubstr("must be positive"));
  EXPECT_THAT(error_of([] { MaxPooling2D()(at::randn({2, 4, 6})); }), HasSubstr("[batch, height, width, channels]"));
  EXPECT_THAT(error_of([] { MaxPooling2D()(at::randn({2, 1, 6, 1})); }), HasSubstr("smaller than a window of [2, 2]"));
}

}  // namespace
}  // namespace tutti::keras::layers
