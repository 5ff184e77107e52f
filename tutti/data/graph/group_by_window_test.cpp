#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

int64_t parity(const Tensor& x) { return x.item<int64_t>() % 2; }
Dataset<Tensor> stacked(int64_t, const Dataset<Tensor>& window) { return window.batch(100); }

// The example of tf.data.Dataset.group_by_window's documentation.
TEST(GroupByWindow, GivesAGroupWhenItIsFull) {
  EXPECT_EQ(numbers(range(10).group_by_window(parity, stacked, 5)), (Numbers{{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}}));
}

TEST(GroupByWindow, GivesWhatIsLeftInTheOrderOfTheKeys) {
  const auto key = [](const Tensor& x) { return -(x.item<int64_t>() % 3); };
  EXPECT_EQ(numbers(range(8).group_by_window(key, stacked, 2)), (Numbers{{0, 3}, {1, 4}, {2, 5}, {7}, {6}}));
  EXPECT_EQ(numbers(range(0).group_by_window(key, stacked, 2)), Numbers{});
}

TEST(GroupByWindow, AWindowsSizeMayFollowFromItsKey) {
  const auto grouped = range(10).group_by_window(parity, stacked, [](int64_t key) { return key == 0 ? 2 : 3; });
  EXPECT_EQ(numbers(grouped), (Numbers{{0, 2}, {1, 3, 5}, {4, 6}, {8}, {7, 9}}));
}

TEST(GroupByWindow, ReducesToAnyDatasetOfAnyType) {
  const auto counted = range(7).group_by_window(
      parity, [](int64_t key, const Dataset<Tensor>& window) { return window.enumerate(100 * key); }, 3);
  static_assert(std::is_same_v<decltype(counted), const Dataset<std::tuple<Tensor, Tensor>>>);
  Numbers all;
  for (const auto& [index, x] : counted) all.push_back({index.item<double>(), x.item<double>()});
  EXPECT_EQ(all, (Numbers{{0, 0}, {1, 2}, {2, 4}, {100, 1}, {101, 3}, {102, 5}, {0, 6}}));
}

TEST(GroupByWindow, ReadsNoFurtherThanTheWindow) {
  EXPECT_EQ(numbers(range(1).repeat().group_by_window(parity, stacked, 4).take(2)).size(), 2U);
  EXPECT_EQ(range(1).repeat().group_by_window(parity, stacked, 4).cardinality(), kInfinite);
  EXPECT_EQ(range(10).group_by_window(parity, stacked, 4).cardinality(), kUnknown);
}

TEST(GroupByWindow, KeepsRowsAndNotTheirBatches) {
  const auto rows = range(4).map([](const Tensor&) { return at::ones({64, 50}); }).unbatch();
  const auto row_itself = [](int64_t, const Dataset<Tensor>& window) { return window; };
  for (const Tensor& row : rows.group_by_window([](const Tensor&) { return 0; }, row_itself, 8).take(10))
    EXPECT_EQ(row.storage().nbytes(), row.nbytes());
}

TEST(GroupByWindow, ErrorsNameTheElement) {
  const auto failing = [](const Tensor& x) -> int64_t {
    if (x.item<int64_t>() == 3) throw Error(ErrorCode::not_found, "no key");
    return 0;
  };
  EXPECT_EQ(error_of([&] { numbers(range(5).group_by_window(failing, stacked, 9)); }),
            "not_found: group_by_window: element 3: no key");
  EXPECT_THAT(error_of([&] { numbers(range(5).group_by_window(parity, stacked, [](int64_t) { return 0; })); }),
              HasSubstr("a window size of 0 for the key 0"));
  EXPECT_THAT(error_of([&] { range(5).group_by_window(parity, stacked, 0); }), HasSubstr("window_size 0"));
}

TEST(GroupByWindow, GoesOnWhereItWasSaved) {
  expect_resumes(range(23).group_by_window([](const Tensor& x) { return x.item<int64_t>() * 7 % 5; },
                                           [](int64_t, const Dataset<Tensor>& window) { return window.batch(2); }, 3));
}

}  // namespace
}  // namespace tutti::data
