#include "tutti/keras/layers/core/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/core/masking.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Embedding, GivesTheRowsThatIdsName) {
  const Embedding layer({.input_dim = 5, .output_dim = 3});
  for (const at::ScalarType dtype : {at::kLong, at::kInt, at::kByte}) {
    const Tensor ids = at::tensor({4, 0, 4, 1}, dtype).reshape({2, 2});
    const Tensor rows = layer(ids);
    EXPECT_EQ(rows.sizes(), layer.compute_output_shape({2, 2}));
    EXPECT_TRUE(at::equal(rows[0][0], layer.weights()[0].value[4]));
    EXPECT_TRUE(at::equal(rows[1][0], layer.weights()[0].value[4]));
  }
  EXPECT_EQ(layer.weights()[0].name, "embeddings");
  EXPECT_LE(layer.weights()[0].value.abs().max().item<double>(), 0.05);
}

TEST(Embedding, PassesGradientsToItsRows) {
  const Embedding layer({.input_dim = 3, .output_dim = 2});
  layer(at::tensor({2, 0, 2})).sum().backward();
  EXPECT_TRUE(at::equal(layer.weights()[0].value.grad(), at::tensor({1.F, 1.F, 0.F, 0.F, 2.F, 2.F}).reshape({3, 2})));
}

TEST(Embedding, MasksZeroIfAsked) {
  const Tensor ids = at::tensor({1, 2, 0, 0, 1, 0}).reshape({2, 3});
  EXPECT_TRUE(at::equal(Embedding({.input_dim = 3, .output_dim = 2, .mask_zero = true}).compute_mask(ids), ids != 0));
  EXPECT_FALSE(Embedding({.input_dim = 3, .output_dim = 2}).compute_mask(ids).defined());
}

TEST(Embedding, RefusesWhatIsNoId) {
  EXPECT_THAT(error_of([] { Embedding({.input_dim = 5}); }),
              StartsWith("invalid_argument: embedding: input_dim is 5, output_dim 0"));
  const Embedding layer({.input_dim = 5, .output_dim = 3, .name = "words"});
  EXPECT_THAT(error_of([&] {
                layer(at::tensor({0, 5}));
              }),
              HasSubstr("words: the input has ids from 0 to 5; input_dim 5 allows 0 to 4"));
  EXPECT_THAT(error_of([&] { layer(at::tensor({-1})); }), HasSubstr("ids from -1"));
  EXPECT_THAT(error_of([&] { layer(at::full({2}, 0.5)); }),
              HasSubstr("the input has dtype Float and numbers that are not whole"));
  EXPECT_EQ(layer(at::zeros({0, 2}, at::kLong)).sizes(), (Shape{0, 2, 3}));
}

TEST(Masking, HidesStepsOfOneValue) {
  const Masking layer({.mask_value = 7});
  const Tensor x = at::tensor({7.F, 7.F, 7.F, 1.F, 2.F, 3.F}).reshape({1, 3, 2});
  EXPECT_TRUE(at::equal(layer(x), at::tensor({0.F, 0.F, 7.F, 1.F, 2.F, 3.F}).reshape({1, 3, 2})));
  EXPECT_TRUE(at::equal(layer.compute_mask(x), at::tensor({0, 1, 1}).to(at::kBool).unsqueeze(0)));
  EXPECT_THAT(error_of([&] { layer(at::ones({2, 2})); }), HasSubstr("masking: the input has shape (2, 2)"));
}

}  // namespace
}  // namespace tutti::keras::layers
