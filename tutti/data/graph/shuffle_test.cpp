#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

Numbers sorted(Numbers numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

at::CPUGeneratorImpl* generator() { return at::detail::getDefaultCPUGenerator().get<at::CPUGeneratorImpl>(); }
void manual_seed(uint64_t seed) { generator()->set_current_seed(seed); }

TEST(Shuffle, IsAPermutation) {
  const Numbers shuffled = numbers(range(100).shuffle(10, {.seed = 1}));
  EXPECT_NE(shuffled, numbers(range(100)));
  EXPECT_EQ(sorted(shuffled), numbers(range(100)));
}

TEST(Shuffle, LooksNoFurtherThanItsBuffer) {
  const Numbers shuffled = numbers(range(100).shuffle(10, {.seed = 1}));
  for (size_t i = 0; i < shuffled.size(); ++i) EXPECT_LT(shuffled[i][0], static_cast<double>(i + 10));
  EXPECT_EQ(numbers(range(9).shuffle(1, {.seed = 1})), numbers(range(9)));
}

TEST(Shuffle, TheSameSeedGivesTheSameOrders) {
  const auto once = range(50).shuffle(50, {.seed = 7});
  const auto again = range(50).shuffle(50, {.seed = 7});
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(numbers(once), numbers(again));
  EXPECT_NE(numbers(range(50).shuffle(50, {.seed = 7})), numbers(range(50).shuffle(50, {.seed = 8})));
}

TEST(Shuffle, ReshufflesInEachPass) {
  const auto shuffled = range(50).shuffle(50, {.seed = 7});
  const Numbers first = numbers(shuffled);
  EXPECT_NE(numbers(shuffled), first);

  const Numbers twice = numbers(range(50).shuffle(50, {.seed = 7}).repeat(2));
  EXPECT_EQ(Numbers(twice.begin(), twice.begin() + 50), first);
  EXPECT_NE(Numbers(twice.begin() + 50, twice.end()), first);
}

TEST(Shuffle, KeepsItsOrderWhenAsked) {
  const auto shuffled = range(50).shuffle(50, {.reshuffle_each_iteration = false});
  EXPECT_EQ(numbers(shuffled), numbers(shuffled));
}

TEST(Shuffle, WithoutASeedFollowsLibTorchs) {
  manual_seed(3);
  const Numbers first = numbers(range(50).shuffle(50));
  EXPECT_NE(numbers(range(50).shuffle(50)), first);
  manual_seed(3);
  EXPECT_EQ(numbers(range(50).shuffle(50)), first);
}

TEST(Shuffle, DrawsOneNumberWhereItIsCalledAndNoneLater) {
  const auto draw = [] { return generator()->random64(); };
  manual_seed(3);
  draw();
  const uint64_t second = draw();

  manual_seed(3);
  const auto shuffled = range(50).shuffle(50);
  numbers(shuffled.repeat(2));
  EXPECT_EQ(draw(), second);

  manual_seed(3);
  range(50).shuffle(50, {.seed = 1});
  draw();
  EXPECT_EQ(draw(), second);
}

TEST(Shuffle, PlacesEveryElementEverywhere) {
  const auto shuffled = range(4).shuffle(4, {.seed = 11});
  std::array<std::array<int, 4>, 4> counts{};
  for (int pass = 0; pass < 4000; ++pass) {
    int place = 0;
    for (const auto& element : numbers(shuffled)) ++counts[place++][static_cast<size_t>(element[0])];
  }
  for (const auto& place : counts)
    for (const int count : place) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
}

TEST(Shuffle, NeedsABuffer) {
  EXPECT_THAT(error_of([] { range(5).shuffle(0); }), ::testing::HasSubstr("shuffle: buffer_size 0"));
}

TEST(Shuffle, KeepsRowsAndNotTheirBatches) {
  const auto rows = range(4).map([](const Tensor&) { return at::ones({64, 50}); }).unbatch();
  const auto behind_enumerate = rows.enumerate().shuffle(20).map([](const Tensor&, const Tensor& row) { return row; });
  for (const auto& dataset : {rows.shuffle(20), behind_enumerate})
    for (const Tensor& row : dataset.take(10)) EXPECT_EQ(row.storage().nbytes(), row.nbytes());
  const Tensor source = at::ones({64, 50});
  for (const Tensor& row :
       from_tensor_slices(source).enumerate().shuffle(20).map([](const Tensor&, const Tensor& row) { return row; }))
    EXPECT_TRUE(row.is_alias_of(source)) << "it is there anyway";
}

}  // namespace
}  // namespace tutti::data
