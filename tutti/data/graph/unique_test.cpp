#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

namespace tutti::data {
namespace {

TEST(Unique, KeepsTheFirstOfEqualElements) {
  EXPECT_EQ(numbers(from_tensor_slices(at::tensor({1, 37, 2, 37, 2, 1})).unique()), (Numbers{{1}, {37}, {2}}));
  EXPECT_EQ(numbers(range(0).unique()), Numbers{});
  EXPECT_EQ(range(4).unique().cardinality(), kUnknown);
}

TEST(Unique, ComparesWholeElements) {
  const auto pairs = from_tensor_slices(at::tensor({1, 1, 1, 2}), Strings({"a", "b", "a", "a"}, {4})).unique();
  int count = 0;
  for ([[maybe_unused]] const auto& [number, text] : pairs) ++count;
  EXPECT_EQ(count, 3);
}

TEST(Unique, TellsShapesAndDtypesApart) {
  const auto four = at::arange(4);
  const auto dataset =
      from_tensors(four).concatenate(from_tensors(four.view({2, 2}))).concatenate(from_tensors(four.to(at::kInt)));
  EXPECT_EQ(numbers(dataset.repeat(3).unique()).size(), 3U);
}

TEST(Unique, BeginsAgainInEachPass) {
  const auto dataset = range(2).repeat(2).unique();
  EXPECT_EQ(numbers(dataset.repeat(2)), (Numbers{{0}, {1}, {0}, {1}}));
}

TEST(Unique, GoesOnWhereItWasSaved) {
  expect_resumes(range(12).map([](const Tensor& x) { return x * x % 7; }).unique());
}

}  // namespace
}  // namespace tutti::data
