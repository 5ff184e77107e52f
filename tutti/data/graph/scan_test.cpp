#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"
#include "tutti/data/distributed_dataset.h"

namespace tutti::data {
namespace {

TEST(Scan, EveryPassBeginsWithTheInitialState) {
  const auto in_place = [](Tensor sum, const Tensor& x) {
    sum.add_(x);
    return std::pair(sum, sum.clone());
  };
  const auto sums = range(1, 4).scan(at::scalar_tensor(5, at::kLong), in_place);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(numbers(sums), (Numbers{{6}, {8}, {11}}));
}

using ::testing::HasSubstr;

Tensor number(int64_t value) { return at::scalar_tensor(value, at::kLong); }

TEST(Scan, HandsAStateFromElementToElement) {
  const auto sums =
      range(1, 6).scan(number(0), [](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum + x); });
  static_assert(std::is_same_v<decltype(sums), const Dataset<Tensor>>);
  EXPECT_EQ(numbers(sums), (Numbers{{1}, {3}, {6}, {10}, {15}}));
  EXPECT_EQ(numbers(sums), numbers(sums));
  EXPECT_EQ(sums.cardinality(), 5);
}

struct Fibonacci {
  Tensor last;
  std::map<std::string, Tensor> before;
};

TEST(Scan, StateAndElementsHaveAnyStructure) {
  const auto numbered = range(6).enumerate().scan(
      Fibonacci{number(1), {{"x", number(0)}}}, [](const Fibonacci& state, const Tensor& index, const Tensor&) {
        return std::tuple(Fibonacci{state.last + state.before.at("x"), {{"x", state.last}}},
                          std::tuple(index, state.before.at("x")));
      });
  Numbers all;
  for (const auto& [index, x] : numbered) all.push_back({index.item<double>(), x.item<double>()});
  EXPECT_EQ(all, (Numbers{{0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 3}, {5, 5}}));
}

TEST(Scan, ErrorsNameTheElement) {
  const auto failing = range(5).scan(number(0), [](const Tensor& state, const Tensor& x) {
    if (x.item<int64_t>() == 2) throw Error(ErrorCode::data_loss, "two");
    return std::pair(state, x);
  });
  EXPECT_EQ(error_of([&] { numbers(failing); }), "data_loss: scan: element 2: two");
}

TEST(Scan, GoesOnWhereItWasSaved) {
  expect_resumes(
      range(7).scan(number(3), [](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum * 2); }));
}

TEST(Reduce, FoldsADatasetIntoAnyValue) {
  EXPECT_EQ(range(5).reduce(0.5, [](double sum, const Tensor& x) { return sum + x.item<double>(); }), 10.5);
  EXPECT_EQ(range(0).reduce(7, [](int, const Tensor&) { return 0; }), 7);
  const auto longest =
      range(3).enumerate(5).reduce(std::string(), [](std::string text, const Tensor& i, const Tensor& x) {
        return text + std::to_string(i.item<int64_t>()) + std::to_string(x.item<int64_t>()) + ' ';
      });
  EXPECT_EQ(longest, "50 61 72 ");
}

TEST(Reduce, ErrorsNameTheElement) {
  EXPECT_EQ(error_of([] {
              range(5).reduce(0, [](int, const Tensor& x) -> int {
                if (x.item<int64_t>() == 4) throw Error(ErrorCode::data_loss, "four");
                return 0;
              });
            }),
            "data_loss: reduce: element 4: four");
}

TEST(Reduce, OfADistributedDatasetGetsTheReplicasValues) {
  const DistributedDataset<Tensor> dataset(range(7).batch(4), 2);
  const auto sizes = dataset.reduce(std::vector<int64_t>(), [](std::vector<int64_t> all, const PerReplica<Tensor>& x) {
    for (int i = 0; i < 2; ++i) all.push_back(x[i].size(0));
    return all;
  });
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 2, 1}));
}

TEST(GetSingleElement, ReturnsTheOnlyOne) {
  EXPECT_EQ(range(3).batch(3).get_single_element().size(0), 3);
  EXPECT_THAT(error_of([] { range(0).get_single_element(); }), HasSubstr("invalid_argument: get_single_element"));
  EXPECT_THAT(error_of([] { range(2).get_single_element(); }), HasSubstr("more than one element"));
}

}  // namespace
}  // namespace tutti::data
