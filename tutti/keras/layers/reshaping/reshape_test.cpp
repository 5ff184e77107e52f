#include "tutti/keras/layers/reshaping/reshape.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Reshape, KeepsTheBatchAndFindsOneExtent) {
  const Tensor x = at::arange(24, at::kFloat).view({2, 3, 4});
  EXPECT_TRUE(at::equal(Reshape({.target_shape = {6, 2}})(x), x.view({2, 6, 2})));
  EXPECT_TRUE(at::equal(Reshape({.target_shape = {2, -1, 3}})(x), x.view({2, 2, 2, 3})));
  EXPECT_EQ(Reshape({.target_shape = {-1}})(x.slice(0, 0, 0)).sizes(), (Shape{0, 12}));
  const Reshape layer({.target_shape = {-1, 2}});
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 3, 4}), (Shape{kUnknown, 6, 2}));
  EXPECT_EQ(layer.compute_output_shape({kUnknown, kUnknown, 4}), (Shape{kUnknown, kUnknown, 2}));
}

TEST(Reshape, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { Reshape({.target_shape = {-1, -1}}); }), HasSubstr("reshape: target_shape is [-1, -1]"));
  EXPECT_THAT(error_of([] {
                Reshape({.target_shape = {5, -1}}).build({kUnknown, 3, 4});
              }),
              HasSubstr("the input has shape (None, 3, 4), 12 elements a sample; they do not fit [5, -1]"));
  EXPECT_THAT(error_of([] { Reshape({.target_shape = {5}})(at::randn({2, 4})); }), HasSubstr("do not fit [5]"));
}

TEST(Permute, CountsAxesFromOne) {
  const Tensor x = at::randn({2, 3, 4, 5});
  EXPECT_TRUE(at::equal(Permute({.dims = {2, 3, 1}})(x), x.permute({0, 2, 3, 1})));
  EXPECT_THAT(error_of([] { Permute({.dims = {0, 1}}); }), HasSubstr("each axis from 1 on once"));
  EXPECT_THAT(error_of([] { Permute({.dims = {2, 1}}).build({kUnknown, 3}); }), HasSubstr("2 axes besides the batch"));
}

TEST(RepeatVector, RepeatsEachSample) {
  const Tensor x = at::randn({2, 3});
  const Tensor y = RepeatVector({.n = 4})(x);
  for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(y.select(1, i), x));
  EXPECT_THAT(error_of([] { RepeatVector({}); }), HasSubstr("repeat_vector: n is 0; it must be positive"));
  EXPECT_THAT(error_of([] { RepeatVector({.n = 2})(at::randn({2, 3, 4})); }), HasSubstr("[batch, features]"));
}

}  // namespace
}  // namespace tutti::keras::layers
