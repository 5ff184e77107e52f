#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

TEST(Batch, StacksAndKeepsOrDropsTheRemainder) {
  EXPECT_EQ(numbers(range(5).batch(2)), (Numbers{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(numbers(range(5).batch(2, {.drop_remainder = true})), (Numbers{{0, 1}, {2, 3}}));
  EXPECT_THAT(error_of([] { range(5).batch(0); }), HasSubstr("batch: size 0"));
}

TEST(Batch, OfConsecutiveSlicesIsAViewOfTheSource) {
  const Tensor source = at::arange(12).view({6, 2});
  const auto batches = from_tensor_slices(source).batch(4);
  auto iterator = batches.begin();
  EXPECT_EQ(iterator->const_data_ptr(), source.const_data_ptr());
  ++iterator;
  EXPECT_EQ(numbers(*iterator), numbers(source.narrow(0, 4, 2)));
}

TEST(Batch, CopiesTheRowsOfShuffledSlices) {
  const Tensor source = at::arange(60).view({20, 3});
  for (const auto& [rows, index] : from_tensor_slices(source, at::arange(20)).shuffle(20, {.seed = 5}).batch(8))
    EXPECT_EQ(numbers(rows), numbers(source.index_select(0, index)));
}

TEST(Batch, JoinsRowsOfDifferentSources) {
  const auto joined = from_tensor_slices(at::arange(2)).concatenate(from_tensor_slices(at::arange(5, 7))).batch(4);
  EXPECT_EQ(numbers(joined), (Numbers{{0, 1, 5, 6}}));
  const auto mixed = from_tensor_slices(at::arange(2)).concatenate(range(2)).batch(4);
  EXPECT_EQ(numbers(mixed), (Numbers{{0, 1, 0, 1}}));
}

TEST(Batch, RefusesUnequalShapesAndDtypes) {
  const auto ragged = range(3).map([](const Tensor& x) { return at::ones({x.item<int64_t>()}); });
  EXPECT_THAT(error_of([&] { *ragged.batch(2).begin(); }),
              HasSubstr("invalid_argument: batch: leaf 0 is Float [1] on cpu in element 1 of a batch and Float [0]"));
  const auto ints_and_floats = from_tensor_slices(at::arange(1)).concatenate(from_tensor_slices(at::ones({1})));
  EXPECT_THAT(error_of([&] { *ints_and_floats.batch(2).begin(); }), HasSubstr("Long [] on cpu in the first"));
}

TEST(Unbatch, UndoesBatch) {
  EXPECT_EQ(numbers(range(5).batch(2).unbatch()), (Numbers{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_THAT(error_of([] { *range(5).unbatch().begin(); }), HasSubstr("a leaf is a scalar"));
}

TEST(Rebatch, CutsAcrossBatches) {
  EXPECT_EQ(numbers(range(7).batch(3).rebatch({2, 1})), (Numbers{{0, 1}, {2}, {3, 4}, {5}, {6}}));
  EXPECT_EQ(numbers(range(7).batch(3).rebatch(4, {.drop_remainder = true})), (Numbers{{0, 1, 2, 3}}));
  EXPECT_THAT(error_of([] { range(5).batch(2).rebatch({0, 0}); }), HasSubstr("sizes [0, 0]"));
  EXPECT_THAT(error_of([] { range(5).batch(2).rebatch({2, -1}); }), HasSubstr("sizes [2, -1]"));
}

TEST(Batch, SeveralThreadsStackTheSameBatches) {
  for (const int64_t rows : {0, 5, 6, 23})
    for (const bool drop : {false, true}) {
      const auto parallel = range(rows).batch(3, {.drop_remainder = drop, .num_parallel_calls = 2});
      EXPECT_EQ(numbers(parallel), numbers(range(rows).batch(3, {.drop_remainder = drop})));
      EXPECT_EQ(parallel.cardinality(), range(rows).batch(3, {.drop_remainder = drop}).cardinality());
    }
  EXPECT_THAT(error_of([] { range(5).batch(2, {.num_parallel_calls = -2}); }),
              HasSubstr("batch: num_parallel_calls -2"));
}

}  // namespace
}  // namespace tutti::data
