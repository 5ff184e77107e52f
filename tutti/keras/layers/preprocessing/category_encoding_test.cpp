#include "tutti/keras/layers/preprocessing/category_encoding.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Tensor pairs() { return at::tensor({0, 1, 0, 0, 1, 2, 3, 1}).reshape({4, 2}); }

// The examples of Keras's documentation.
TEST(CategoryEncoding, MakesARowOfEachCategory) {
  const CategoryEncoding layer({.num_tokens = 4, .output_mode = OutputMode::one_hot});
  const Tensor expected = at::eye(4).index_select(0, at::tensor({3, 2, 0, 1}));
  EXPECT_TRUE(at::equal(layer(at::tensor({3, 2, 0, 1})), expected));
  EXPECT_TRUE(at::equal(layer(at::tensor({3, 2, 0, 1}).unsqueeze(1)), expected));
}

TEST(CategoryEncoding, MakesARowOfEachSample) {
  const CategoryEncoding layer({.num_tokens = 4});
  EXPECT_TRUE(at::equal(
      layer(pairs()),
      at::tensor({1., 1., 0., 0., 1., 0., 0., 0., 0., 1., 1., 0., 0., 1., 0., 1.}, at::kFloat).reshape({4, 4})));
  EXPECT_TRUE(at::equal(layer(at::tensor({3, 3}, at::kInt)), at::tensor({0., 0., 0., 1.}, at::kFloat)));
}

TEST(CategoryEncoding, CountsCategoriesByTheirWeights) {
  const CategoryEncoding layer({.num_tokens = 4, .output_mode = OutputMode::count});
  EXPECT_EQ(layer(pairs())[1][0].item<double>(), 2);
  Tensor weights = at::tensor({.1, .2, .1, .1, .2, .3, .4, .2}).reshape({4, 2}).requires_grad_();
  const Tensor counts = layer(pairs(), weights);
  EXPECT_TRUE(at::allclose(
      counts, at::tensor({.1, .2, 0., 0., .2, 0., 0., 0., 0., .2, .3, 0., 0., .2, 0., .4}).reshape({4, 4})));
  counts.square().sum().backward();
  EXPECT_TRUE(at::allclose(weights.grad()[1], at::tensor({.4, .4})));  // 2 * (0.1 + 0.1)
}

TEST(CategoryEncoding, SaysTheShapeOfItsOutput) {
  for (const OutputMode mode : {OutputMode::one_hot, OutputMode::multi_hot, OutputMode::count}) {
    const CategoryEncoding layer({.num_tokens = 5, .output_mode = mode});
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{3, 1}, Shape{3, 2}, Shape{3, 2, 4}, Shape{0, 2}})
      EXPECT_EQ(layer(at::zeros(shape, at::kLong)).sizes(), layer.compute_output_shape(shape)) << to_string(shape);
  }
}

TEST(CategoryEncoding, RefusesWhatIsNoCategory) {
  EXPECT_THAT(error_of([] { CategoryEncoding({}); }), StartsWith("invalid_argument: category_encoding: num_tokens is"));
  EXPECT_THAT(error_of([] { CategoryEncoding({.num_tokens = 2, .output_mode = OutputMode::int_}); }),
              HasSubstr("must be OutputMode::one_hot"));
  const CategoryEncoding layer({.num_tokens = 3, .name = "colours"});
  EXPECT_THAT(error_of([&] { layer(pairs()); }),
              HasSubstr("colours: the input has categories from 0 to 3; num_tokens"));
  EXPECT_THAT(error_of([&] { layer(-pairs()); }), HasSubstr("categories from -3 to 0"));
  EXPECT_THAT(error_of([&] { layer(at::zeros({2})); }), HasSubstr("an integer dtype is required"));
  EXPECT_THAT(error_of([&] { layer(pairs(), at::zeros({4, 2})); }), HasSubstr("for OutputMode::count only"));
  const CategoryEncoding count({.num_tokens = 4, .output_mode = OutputMode::count});
  EXPECT_THAT(error_of([&] { count(pairs(), at::zeros({4})); }), HasSubstr("count_weights have shape (4,), the input"));
}

}  // namespace
}  // namespace tutti::keras::layers
