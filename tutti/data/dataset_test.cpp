#include "tutti/data/dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <set>
#include <stdexcept>
#include <thread>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

TEST(Dataset, IteratesSlicesAsManyTimesAsOneLikes) {
  const auto dataset = from_tensor_slices(at::tensor({3, 1, 2}));
  static_assert(std::is_same_v<decltype(dataset), const Dataset<Tensor>>);
  EXPECT_EQ(numbers(dataset), (Numbers{{3}, {1}, {2}}));
  EXPECT_EQ(numbers(dataset), (Numbers{{3}, {1}, {2}}));
}

TEST(Dataset, GivesTuplesToStructuredBindings) {
  const auto dataset = from_tensor_slices(at::arange(4).view({2, 2}), at::tensor({7.F, 8.F}));
  double sum = 0;
  for (const auto& [features, label] : dataset) {
    EXPECT_EQ(features.sizes(), at::IntArrayRef({2}));
    EXPECT_EQ(label.scalar_type(), at::kFloat);
    sum += label.item<double>();
  }
  EXPECT_EQ(sum, 15);
}

TEST(Dataset, FromTensorsIsOneElement) {
  const auto dataset = from_tensors(at::ones({1}), at::ones({1})).repeat(1000).batch(20);
  EXPECT_EQ(dataset.cardinality(), 50);
  int64_t batches = 0;
  for (const auto& [x, y] : dataset) {
    EXPECT_EQ(x.sizes(), at::IntArrayRef({20, 1}));
    EXPECT_EQ(y.sum().item<double>(), 20);
    ++batches;
  }
  EXPECT_EQ(batches, 50);
}

TEST(Dataset, SourcesRefuseWhatHasNoRows) {
  EXPECT_THAT(error_of([] { from_tensor_slices(at::ones({})); }), HasSubstr("invalid_argument: from_tensor_slices"));
  EXPECT_THAT(error_of([] { from_tensor_slices(at::ones({2}), at::ones({3})); }), HasSubstr("2 and 3 rows"));
}

TEST(Dataset, RangeCountsUpAndDown) {
  EXPECT_EQ(numbers(range(3)), (Numbers{{0}, {1}, {2}}));
  EXPECT_EQ(numbers(range(2, 9, 3)), (Numbers{{2}, {5}, {8}}));
  EXPECT_EQ(numbers(range(3, 0, -2)), (Numbers{{3}, {1}}));
  EXPECT_EQ(range(5, 5).cardinality(), 0);
  EXPECT_EQ(range(INT64_MIN, INT64_MAX, INT64_MAX).cardinality(), 3);
  EXPECT_THAT(error_of([] { range(0, 1, 0); }), HasSubstr("step is 0"));
  EXPECT_THAT(error_of([] { range(INT64_MIN, INT64_MAX); }), HasSubstr("2^63"));
}

TEST(Dataset, MapPassesThePartsOfATupleAsArguments) {
  const auto dataset = from_tensor_slices(at::arange(3), at::arange(3)).map([](const Tensor& x, const Tensor& y) {
    return std::tuple(x.to(at::kFloat) / 2, y);
  });
  static_assert(std::is_same_v<decltype(dataset), const Dataset<std::tuple<Tensor, Tensor>>>);
  EXPECT_EQ(numbers(dataset.map([](Tensor x, Tensor y) { return x + y; })), (Numbers{{0}, {1.5}, {3}}));
}

TEST(Dataset, MapRunsWithoutGradients) {
  const Tensor weight = at::ones({1}).requires_grad_();
  for (const Tensor& element : range(1).map([&](const Tensor& x) { return x * weight; }))
    EXPECT_FALSE(element.requires_grad());
}

TEST(Dataset, ElementsOfInferenceModeAreOrdinaryTensors) {
  const c10::InferenceMode inference;
  for (const Tensor& element : range(1).map([](const Tensor& x) { return x + 1; }).cache())
    EXPECT_FALSE(element.is_inference());
}

TEST(Dataset, AThrowingMapReachesTheConsumerWithItsType) {
  const auto dataset = range(5).map([](const Tensor& x) {
    if (x.item<int64_t>() == 3) throw std::domain_error("three");
    return x;
  });
  int seen = 0;
  const auto count = [&seen](const auto& pipeline) {
    seen = 0;
    for ([[maybe_unused]] const auto& element : pipeline) ++seen;
  };
  EXPECT_THROW(count(dataset), std::domain_error);
  EXPECT_EQ(seen, 3);
  EXPECT_THROW(count(dataset.prefetch(2)), std::domain_error);
  EXPECT_EQ(seen, 3);
}

TEST(Dataset, TakesSkipsShardsAndConcatenates) {
  EXPECT_EQ(numbers(range(5).take(2)), (Numbers{{0}, {1}}));
  EXPECT_EQ(numbers(range(5).skip(3)), (Numbers{{3}, {4}}));
  EXPECT_EQ(numbers(range(5).skip(9)), Numbers{});
  EXPECT_EQ(numbers(range(7).shard(3, 0)), (Numbers{{0}, {3}, {6}}));
  EXPECT_EQ(numbers(range(7).shard(3, 2)), (Numbers{{2}, {5}}));
  EXPECT_EQ(numbers(range(2).concatenate(range(1))), (Numbers{{0}, {1}, {0}}));
  EXPECT_THAT(error_of([] { range(5).shard(3, 3); }), HasSubstr("index 3 of 3"));
  EXPECT_THAT(error_of([] { range(5).take(-1); }), HasSubstr("take: count -1"));
  EXPECT_THAT(error_of([] { range(5).skip(-1); }), HasSubstr("skip: count -1"));
}

TEST(Dataset, ZipsAndEnumeratesIntoTuples) {
  const auto zipped = zip(range(3), from_tensor_slices(at::tensor({5, 6}), at::tensor({7, 8})));
  static_assert(std::is_same_v<decltype(zipped), const Dataset<std::tuple<Tensor, std::tuple<Tensor, Tensor>>>>);
  EXPECT_EQ(zipped.cardinality(), 2);
  Numbers all;
  for (const auto& [index, pair] : zipped)
    all.push_back({index.item<double>(), std::get<0>(pair).item<double>(), std::get<1>(pair).item<double>()});
  EXPECT_EQ(all, (Numbers{{0, 5, 7}, {1, 6, 8}}));

  Numbers numbered;
  for (const auto& [index, x] : range(4, 6).enumerate(-1)) numbered.push_back({index.item<double>(), x.item<double>()});
  EXPECT_EQ(numbered, (Numbers{{-1, 4}, {0, 5}}));
}

TEST(Dataset, RepeatsACountOfPassesOrForever) {
  EXPECT_EQ(numbers(range(2).repeat(2)), (Numbers{{0}, {1}, {0}, {1}}));
  EXPECT_EQ(numbers(range(2).repeat().take(3)), (Numbers{{0}, {1}, {0}}));
  EXPECT_EQ(numbers(range(2).repeat(0)), Numbers{});
  EXPECT_EQ(numbers(range(0).repeat()), Numbers{});
  EXPECT_THAT(error_of([] { range(2).repeat(-2); }), HasSubstr("repeat: count -2"));
}

TEST(Dataset, RepeatsACountOfPassesThoughSomeAreEmpty) {
  const auto one_of_ten = [] { return range(10).shuffle(10, {.seed = 3}).take(1); };
  Numbers expected;
  for (const auto& number : numbers(one_of_ten().repeat(20)))
    if (number[0] < 3) expected.push_back(number);
  EXPECT_GT(expected.size(), 1U);
  EXPECT_EQ(numbers(one_of_ten().filter([](const Tensor& x) { return x.item<int64_t>() < 3; }).repeat(20)), expected);
}

TEST(Dataset, CardinalityFollowsFromTheGraph) {
  EXPECT_EQ(range(10).batch(3).cardinality(), 4);
  EXPECT_EQ(range(10).batch(3, {.drop_remainder = true}).cardinality(), 3);
  EXPECT_EQ(range(10).repeat().cardinality(), kInfinite);
  EXPECT_EQ(range(10).repeat().take(4).cardinality(), 4);
  EXPECT_EQ(range(0).repeat().cardinality(), 0);
  EXPECT_EQ(range(10).repeat(3).skip(1).shard(4, 1).cardinality(), 7);
  EXPECT_EQ(range(10).concatenate(range(2)).cardinality(), 12);
  EXPECT_EQ(zip(range(10), range(3).repeat()).cardinality(), 10);
  EXPECT_EQ(range(10).repeat().enumerate().cardinality(), kInfinite);
  EXPECT_EQ(range(10).batch(2).unbatch().cardinality(), kUnknown);
  EXPECT_EQ(range(10).batch(2).rebatch(3).map([](const Tensor& x) { return x; }).cardinality(), kUnknown);
}

TEST(Dataset, BelongsToNoThread) {
  const auto dataset = range(200).shuffle(50, {.seed = 1}).batch(7).prefetch(2);
  std::vector<std::multiset<double>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen)
      threads.emplace_back([&dataset, &mine] {
        for (const Tensor& batch : dataset)
          for (const double x : numbers(batch)) mine.insert(x);
      });
  }
  for (const auto& mine : seen) {
    EXPECT_EQ(mine.size(), 200U);
    EXPECT_EQ(*mine.rbegin(), 199);
  }
}

TEST(Dataset, AnIteratorOutlivesItsDataset) {
  auto iterator = from_tensor_slices(at::arange(6)).shuffle(6, {.seed = 3}).repeat(2).batch(4).begin();
  int64_t rows = 0;
  for (; iterator != std::default_sentinel; ++iterator) rows += iterator->size(0);
  EXPECT_EQ(rows, 12);
}

TEST(Dataset, AWriteIntoAnElementIsNoticed) {
  const auto dataset = from_tensor_slices(at::arange(6)).map([](Tensor x) { return x.add_(1); });
  EXPECT_THAT(error_of([&] { numbers(dataset); }),
              HasSubstr("failed_precondition: map: element 1: Dataset: the memory behind leaf 0"));
}

TEST(Dataset, ACardinalityThatOverflowsIsUnknown) {
  EXPECT_EQ(range(10).repeat(INT64_MAX).cardinality(), kUnknown);
  EXPECT_EQ(range(4).repeat(int64_t{1} << 62).take(5).cardinality(), kUnknown);
  EXPECT_EQ(range(4).repeat(int64_t{1} << 60).cardinality(), int64_t{1} << 62);
}

TEST(Dataset, AFunctionThatReturnsAnUndefinedTensorIsRefusedByItsElement) {
  const auto undefined = [](const Tensor& x) { return x.item<int64_t>() == 1 ? Tensor() : x; };
  for (const int threads : {0, 2}) {
    auto iterator = range(3).map(undefined, {.num_parallel_calls = threads}).begin();
    EXPECT_THAT(error_of([&] { ++iterator; }),
                ::testing::HasSubstr("invalid_argument: map: element 1: an element has an undefined"));
  }
}

}  // namespace
}  // namespace tutti::data
