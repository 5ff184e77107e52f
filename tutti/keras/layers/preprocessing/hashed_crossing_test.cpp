#include "tutti/keras/layers/preprocessing/hashed_crossing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using Features = std::vector<HashedCrossing::Feature>;
using ::testing::HasSubstr;

// The numbers of Keras's documentation.
TEST(HashedCrossing, GivesKerassBins) {
  const Strings letters(std::vector<std::string>{"A", "B", "A", "B", "A"});
  const Tensor numbers = at::tensor({101, 101, 101, 102, 102});
  const Tensor bins = at::tensor({1, 4, 1, 1, 3});
  const HashedCrossing layer({.num_bins = 5});
  EXPECT_TRUE(at::equal(layer(Features{letters, numbers}), bins));
  EXPECT_TRUE(at::equal(layer(Features{letters.reshape({5, 1}), numbers.view({5, 1})}), bins.view({5, 1})));
  const Tensor rows = HashedCrossing({.num_bins = 5, .output_mode = OutputMode::one_hot})(Features{letters, numbers});
  EXPECT_TRUE(at::equal(rows.argmax(-1), bins));
  EXPECT_EQ(rows.sum().item<double>(), 5);
}

TEST(HashedCrossing, IsALayerOfSeveralIntegers) {
  const Layer layer = HashedCrossing({.num_bins = 100});
  const Tensor a = at::tensor({1, 2, 3}), b = at::tensor({1, 1, 2}, at::kInt);
  const Tensor bins = layer({a, b});
  EXPECT_EQ(bins.sizes(), (Shape{3}));
  EXPECT_TRUE(at::equal(bins, layer({a, b})));
  EXPECT_FALSE(at::equal(bins, layer({b, a})));
  EXPECT_EQ(layer({a, b, a}).sizes(), (Shape{3}));
}

TEST(HashedCrossing, RefusesWhatDoesNotFit) {
  const HashedCrossing layer({.num_bins = 5});
  EXPECT_THAT(error_of([] { HashedCrossing({}); }), HasSubstr("num_bins is 0"));
  EXPECT_THAT(error_of([&] { layer(Features{at::tensor({1})}); }), HasSubstr("takes two or more features, not 1"));
  EXPECT_THAT(error_of([&] { layer(Features{at::tensor({1}), at::tensor({1, 2})}); }), HasSubstr("they must be alike"));
  EXPECT_THAT(error_of([&] {
                layer(Features{at::zeros({2, 3}), at::zeros({2, 3})});
              }),
              HasSubstr("it must be (), (N,)"));
  EXPECT_THAT(error_of([&] {
                layer(Features{at::zeros({2}), at::zeros({2})});
              }),
              HasSubstr("integer dtype is required"));
}

}  // namespace
}  // namespace tutti::keras::layers
