#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

TEST(PaddedBatch, RefusesWhatWouldChangeNumbers) {
  const auto whole = from_tensor_slices(at::full({1, 2}, (int64_t{1} << 53) + 1));
  const auto mixed = whole.concatenate(from_tensor_slices(at::ones({1, 1})));
  EXPECT_THAT(error_of([&] { *mixed.padded_batch(2).begin(); }), ::testing::HasSubstr("one dtype and device"));
  const auto ragged = range(1, 3).map([](const Tensor& x) { return x.expand({x.item<int64_t>()}); });
  EXPECT_THAT(error_of([&] { *ragged.padded_batch(2, {.padding_value = 0.5}).begin(); }),
              ::testing::HasSubstr("padding_value 0.5 is no Long"));
  EXPECT_THAT(error_of([&] { ragged.padded_batch(2, {.padded_shapes = {{-5}}}); }),
              ::testing::HasSubstr("invalid_argument: padded_batch: padded_shapes has [-5]"));
}

// [1], [2, 2], [3, 3, 3], …
Dataset<Tensor> growing(int64_t count) {
  return range(1, count + 1).map([](const Tensor& x) { return x.expand({x.item<int64_t>()}); });
}

TEST(PaddedBatch, PadsToTheLongestOfTheBatch) {
  EXPECT_EQ(numbers(growing(3).padded_batch(2)), (Numbers{{1, 0, 2, 2}, {3, 3, 3}}));
  EXPECT_EQ(numbers(growing(3).padded_batch(2, {.padding_value = -1})), (Numbers{{1, -1, 2, 2}, {3, 3, 3}}));
  EXPECT_EQ(numbers(growing(3).padded_batch(2, {.drop_remainder = true})).size(), 1U);
  EXPECT_EQ(growing(3).padded_batch(2).cardinality(), 2);
}

TEST(PaddedBatch, PadsEveryAxisAndEveryLeaf) {
  const auto squares = growing(2).map([](const Tensor& x) { return std::tuple(x.unsqueeze(1).expand({-1, 2}), x); });
  for (const auto& [matrix, vector] : squares.padded_batch(2)) {
    EXPECT_EQ(matrix.sizes(), at::IntArrayRef({2, 2, 2}));
    EXPECT_EQ(numbers(matrix), (std::vector<double>{1, 1, 0, 0, 2, 2, 2, 2}));
    EXPECT_EQ(vector.sizes(), at::IntArrayRef({2, 2}));
  }
}

TEST(PaddedBatch, PadsTextWithEmptyStrings) {
  const auto words = range(1, 3).map(
      [](const Tensor& x) { return Strings(std::vector<std::string>(static_cast<size_t>(x.item<int64_t>()), "w")); });
  EXPECT_EQ(*words.padded_batch(2).begin(), Strings({"w", "", "w", "w"}, {2, 2}));
}

TEST(PaddedBatch, RefusesUnequalNumbersOfAxes) {
  const auto mixed = from_tensors(at::full({2}, 1)).concatenate(from_tensors(at::full({2, 2}, 1)));
  EXPECT_THAT(error_of([&] { *mixed.padded_batch(2).begin(); }),
              ::testing::HasSubstr("invalid_argument: padded_batch: Long [2, 2] on cpu"));
  EXPECT_THAT(error_of([] { growing(3).padded_batch(0); }), ::testing::HasSubstr("batch: size 0"));
}

TEST(PaddedBatch, PadsToTheShapesAskedFor) {
  const auto growing = range(1, 3).map([](const Tensor& x) { return x.expand({x.item<int64_t>(), 1}); });
  EXPECT_EQ(numbers(growing.padded_batch(2, {.padding_value = 7, .padded_shapes = {{3, -1}}})),
            (Numbers{{1, 7, 7, 2, 2, 7}}));
  EXPECT_THAT(error_of([&] {
                *growing.padded_batch(2, {.padded_shapes = {{1, 1}}}).begin();
              }),
              ::testing::HasSubstr("rows of up to [2, 1] are to be padded to [1, 1]"));
  EXPECT_THAT(error_of([&] { *growing.padded_batch(2, {.padded_shapes = {{2}}}).begin(); }),
              ::testing::HasSubstr("padded to [2]"));
  EXPECT_THAT(error_of([&] {
                *growing.padded_batch(2, {.padded_shapes = {{2, 1}, {}}}).begin();
              }),
              ::testing::HasSubstr("2 padded_shapes for elements of 1 leaves"));
}

}  // namespace
}  // namespace tutti::data
