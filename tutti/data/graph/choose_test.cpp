#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

Dataset<Tensor> copies(double value, int64_t count) { return from_tensors(at::full({}, value)).repeat(count); }
Dataset<Tensor> choices(std::vector<int64_t> indices) { return from_tensor_slices(at::tensor(indices)); }

// The examples of tf.data.Dataset.choose_from_datasets' documentation.
TEST(ChooseFromDatasets, TakesTheNextElementOfTheChosen) {
  const std::vector datasets{copies(7, kInfinite), copies(8, kInfinite), copies(9, kInfinite)};
  EXPECT_EQ(numbers(choose_from_datasets(datasets, range(3).repeat(2))), (Numbers{{7}, {8}, {9}, {7}, {8}, {9}}));
  EXPECT_EQ(numbers(choose_from_datasets<Tensor>({range(9), range(10, 19)}, choices({0, 1, 1, 0}))),
            (Numbers{{0}, {10}, {11}, {1}}));
}

TEST(ChooseFromDatasets, StopsAtAnEmptyDatasetOrPassesItOver) {
  const std::vector datasets{copies(7, 1), copies(8, 3)};
  const auto chosen = choices({0, 1, 0, 1, 1, 1, 0});
  EXPECT_EQ(numbers(choose_from_datasets(datasets, chosen)), (Numbers{{7}, {8}}));
  EXPECT_EQ(numbers(choose_from_datasets(datasets, chosen, {.stop_on_empty_dataset = false})),
            (Numbers{{7}, {8}, {8}, {8}}));
  EXPECT_EQ(numbers(choose_from_datasets(datasets, range(2).repeat(), {.stop_on_empty_dataset = false})).size(), 4U);
}

TEST(ChooseFromDatasets, RefusesWhatIsNoChoice) {
  const std::vector datasets{range(3), range(3)};
  EXPECT_THAT(error_of([&] {
                numbers(choose_from_datasets(datasets, choices({0, 2})));
              }),
              HasSubstr("a choice is 2; there are 2 datasets"));
  EXPECT_THAT(error_of([&] { numbers(choose_from_datasets(datasets, choices({-1}))); }), HasSubstr("a choice is -1"));
  EXPECT_THAT(error_of([&] { numbers(choose_from_datasets(datasets, copies(0.5, 1))); }), HasSubstr("integer scalar"));
  EXPECT_THAT(error_of([&] { choose_from_datasets<Tensor>({}, range(1)); }), HasSubstr("no datasets"));
}

TEST(ChooseFromDatasets, GoesOnWhereItWasSaved) {
  expect_resumes(choose_from_datasets<Tensor>({range(4), range(10, 13)}, choices({0, 1, 1, 0, 1, 1, 0, 0}),
                                              {.stop_on_empty_dataset = false}));
}

double share_of(const Numbers& numbers, double value) {
  const auto count = std::ranges::count(numbers, std::vector{value});
  return static_cast<double>(count) / static_cast<double>(numbers.size());
}

TEST(SampleFromDatasets, DrawsByTheWeights) {
  const std::vector datasets{copies(1, kInfinite), copies(2, kInfinite), copies(3, kInfinite)};
  const auto drawn = numbers(sample_from_datasets(datasets, {.weights = {1, 3, 0}, .seed = 5}).take(4000));
  EXPECT_NEAR(share_of(drawn, 1), 0.25, 0.035);  // five standard deviations
  EXPECT_EQ(share_of(drawn, 3), 0);
  const auto uniform = numbers(sample_from_datasets(datasets, {.seed = 5}).take(3000));
  for (const double value : {1, 2, 3}) EXPECT_NEAR(share_of(uniform, value), 1. / 3, 0.044);
}

TEST(SampleFromDatasets, GivesEveryElementOnceAndInOrder) {
  const auto drawn = numbers(sample_from_datasets<Tensor>({range(5), range(100, 120)}, {.seed = 1}));
  ASSERT_EQ(drawn.size(), 25U);
  Numbers small, large;
  for (const auto& x : drawn) (x[0] < 100 ? small : large).push_back(x);
  EXPECT_EQ(small, numbers(range(5)));
  EXPECT_EQ(large, numbers(range(100, 120)));
}

TEST(SampleFromDatasets, StopsAtAnEmptyDatasetWhenAsked) {
  const std::vector datasets{copies(1, 2), copies(2, kInfinite)};
  const auto drawn = numbers(sample_from_datasets(datasets, {.seed = 1, .stop_on_empty_dataset = true}));
  EXPECT_EQ(std::ranges::count(drawn, std::vector{1.}), 2);
}

TEST(SampleFromDatasets, FollowsTheSeed) {
  const std::vector datasets{copies(1, 50), copies(2, 50)};
  const auto drawn = sample_from_datasets(datasets, {.seed = 1});
  EXPECT_EQ(numbers(drawn), numbers(sample_from_datasets(datasets, {.seed = 1})));
  EXPECT_NE(numbers(drawn), numbers(sample_from_datasets(datasets, {.seed = 2})));
  EXPECT_EQ(numbers(drawn), numbers(drawn));
  const auto changing = sample_from_datasets(datasets, {.seed = 1, .rerandomize_each_iteration = true});
  EXPECT_NE(numbers(changing), numbers(changing));
}

TEST(SampleFromDatasets, KnowsHowManyElementsFollow) {
  const std::vector datasets{range(3), range(4)};
  EXPECT_EQ(sample_from_datasets(datasets).cardinality(), 7);
  EXPECT_EQ(sample_from_datasets(datasets, {.weights = {0, 1}}).cardinality(), 4);
  EXPECT_EQ(sample_from_datasets(datasets, {.stop_on_empty_dataset = true}).cardinality(), kUnknown);
  EXPECT_EQ(sample_from_datasets<Tensor>({range(3), range(4).repeat()}).cardinality(), kInfinite);
}

TEST(SampleFromDatasets, ChecksTheWeights) {
  const std::vector datasets{range(3), range(4)};
  for (const std::vector<double>& weights : {std::vector<double>{1}, {0, 0}, {1, -1}, {1, NAN}, {INFINITY, 1}})
    EXPECT_THAT(error_of([&] { sample_from_datasets(datasets, {.weights = weights}); }),
                HasSubstr("invalid_argument: sample_from_datasets: weights"));
  EXPECT_THAT(error_of([] { sample_from_datasets<Tensor>({}); }), HasSubstr("no datasets"));
}

TEST(SampleFromDatasets, GoesOnWhereItWasSaved) {
  expect_resumes(sample_from_datasets<Tensor>({range(6), range(10, 15)}, {.weights = {1, 2}, .seed = 3}));
  const auto build = [] {
    return sample_from_datasets<Tensor>({range(6), range(10, 15)}, {.seed = 3, .rerandomize_each_iteration = true})
        .repeat(2);
  };
  const Tensor state = saved_after(7, build());
  const Numbers all = numbers(build());
  EXPECT_EQ(rest_of(build(), state), Numbers(all.begin() + 7, all.end()));
}

}  // namespace
}  // namespace tutti::data
