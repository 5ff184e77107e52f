#include "tutti/keras/layers/core/lambda.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

TEST(Lambda, FindsTheShapeOfItsResult) {
  const Lambda layer({.function = [](const Tensor& x) { return x.flatten(1).unsqueeze(-1); }});
  const Tensor x = at::randn({2, 3, 4});
  EXPECT_TRUE(at::equal(layer(x), x.view({2, 12, 1})));
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 3, 4}), (Shape{kUnknown, 12, 1}));
  EXPECT_EQ(layer.compute_output_shape({kUnknown, kUnknown, 4}), (Shape{kUnknown, kUnknown, 1}));
}

TEST(Lambda, BelievesTheShapeThatItIsTold) {
  const Lambda layer({.function = [](const Tensor& x) { return x; },
                      .output_shape =
                          [](const Shape& shape) {
                            return Shape{shape[0], 7};
                          }});
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 3}), (Shape{kUnknown, 7}));
  EXPECT_THAT(error_of([] { Lambda({}); }), testing::HasSubstr("lambda: it has no function"));
}

TEST(Identity, IsItsInput) {
  const Tensor x = at::randn({2, 3});
  EXPECT_TRUE(Identity()(x).is_same(x));
  EXPECT_EQ(Identity().name(), "identity");
}

}  // namespace
}  // namespace tutti::keras::layers
