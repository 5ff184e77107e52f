#include "tutti/keras/layers/reshaping/cropping.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Cropping2D, CutsTopBottomLeftRight) {
  const Tensor x = at::randn({2, 6, 7, 3});
  EXPECT_TRUE(at::equal(Cropping2D({.cropping = {1, 2, 0, 3}})(x), x.slice(1, 1, 4).slice(2, 0, 4)));
  EXPECT_TRUE(Cropping2D()(x).is_alias_of(x));
  EXPECT_EQ(Cropping3D().compute_output_shape({kUnknown, 4, kUnknown, 3, 1}), (Shape{kUnknown, 2, kUnknown, 1, 1}));
}

TEST(Cropping2D, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { Cropping2D({.cropping = {-1, 0, 0, 0}}); }), HasSubstr("cropping is -1 in front"));
  EXPECT_THAT(error_of([] {
                Cropping1D()(at::randn({2, 2, 3}));
              }),
              HasSubstr("cropping1d: the input has shape (2, 2, 3); cropping 1 and 1 leaves nothing of axis 1"));
}

TEST(ZeroPadding2D, IsUndoneByCropping) {
  const Tensor x = at::randn({2, 3, 4, 5});
  const Tensor y = ZeroPadding2D({.padding = {1, 2, 3, 0}})(x);
  EXPECT_EQ(y.sizes(), (Shape{2, 6, 7, 5}));
  EXPECT_TRUE(at::equal(Cropping2D({.cropping = {1, 2, 3, 0}})(y), x));
  EXPECT_EQ(y.ne(0).sum().item<int64_t>(), x.numel());
  EXPECT_THAT(error_of([] { ZeroPadding1D({.padding = {0, -2}}); }), HasSubstr("padding is 0 in front and -2 behind"));
  EXPECT_THAT(error_of([&] { ZeroPadding3D()(x); }), HasSubstr("[batch, depth, height, width, channels]"));
}

}  // namespace
}  // namespace tutti::keras::layers
