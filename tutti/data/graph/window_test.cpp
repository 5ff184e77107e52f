#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

// Each window in one tensor.
Numbers joined(const Dataset<Dataset<Tensor>>& windows) {
  return numbers(windows.flat_map([](const Dataset<Tensor>& window) { return window.batch(1000); }));
}

// The examples of tf.data.Dataset.window's documentation.
TEST(Window, ShiftsStridesAndKeepsTheRemainder) {
  EXPECT_EQ(joined(range(7).window(3)), (Numbers{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(joined(range(7).window(3, {.drop_remainder = true})), (Numbers{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(joined(range(7).window(3, {.shift = 1, .drop_remainder = true})),
            (Numbers{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}}));
  EXPECT_EQ(joined(range(7).window(3, {.shift = 1, .stride = 2, .drop_remainder = true})),
            (Numbers{{0, 2, 4}, {1, 3, 5}, {2, 4, 6}}));
  EXPECT_EQ(joined(range(7).window(3, {.shift = 2, .stride = 2})), (Numbers{{0, 2, 4}, {2, 4, 6}, {4, 6}, {6}}));
}

TEST(Window, SkipsWhatLiesBetweenTwo) {
  EXPECT_EQ(joined(range(9).window(2, {.shift = 4})), (Numbers{{0, 1}, {4, 5}, {8}}));
  EXPECT_EQ(joined(range(7).window(2, {.shift = 4})), (Numbers{{0, 1}, {4, 5}}));
  EXPECT_EQ(joined(range(0).window(2)), Numbers{});
}

TEST(Window, CountsItsWindows) {
  for (const int64_t n : {0, 1, 5, 8, 9, 10})
    for (const int64_t size : {1, 2, 3})
      for (const int64_t shift : {1, 2, 5})
        for (const int64_t stride : {1, 2})
          for (const bool drop : {false, true}) {
            const auto windows = range(n).window(size, {.shift = shift, .stride = stride, .drop_remainder = drop});
            EXPECT_EQ(windows.cardinality(), static_cast<int64_t>(joined(windows).size()))
                << n << ' ' << size << ' ' << shift << ' ' << stride << ' ' << drop;
          }
  EXPECT_EQ(range(1).repeat().window(3).cardinality(), kInfinite);
}

TEST(Window, IsADatasetOfKnownCardinalityThatCanBeReadTwice) {
  for (const Dataset<Tensor>& window : range(6).window(3)) {
    EXPECT_EQ(window.cardinality(), 3);
    EXPECT_EQ(numbers(window), numbers(window));
  }
}

TEST(Window, KeepsTuplesAndMayStandInOne) {
  const auto windows = range(4).enumerate(10).window(2).enumerate();
  Numbers all;
  for (const auto& [index, window] : windows)
    for (const auto& [number, x] : window)
      all.push_back({index.item<double>(), number.item<double>(), x.item<double>()});
  EXPECT_EQ(all, (Numbers{{0, 10, 0}, {0, 11, 1}, {1, 12, 2}, {1, 13, 3}}));
}

TEST(Window, OfWindows) {
  const auto nested = range(8).window(2).window(2).flat_map([](const Dataset<Dataset<Tensor>>& outer) {
    return outer.flat_map([](const Dataset<Tensor>& inner) { return inner.batch(2); });
  });
  EXPECT_EQ(numbers(nested), (Numbers{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(Window, CannotBeStackedOrCached) {
  EXPECT_THAT(error_of([] { *range(6).window(2).batch(2).begin(); }), HasSubstr("is itself a dataset"));
  EXPECT_THAT(error_of([] { *range(6).window(2).cache().begin(); }), HasSubstr("is itself a dataset"));
}

TEST(Window, ChecksItsArguments) {
  EXPECT_THAT(error_of([] { range(6).window(0); }), HasSubstr("invalid_argument: window: size 0"));
  EXPECT_THAT(error_of([] { range(6).window(2, {.shift = 0}); }), HasSubstr("shift 0"));
  EXPECT_THAT(error_of([] { range(6).window(2, {.stride = -1}); }), HasSubstr("stride -1"));
  EXPECT_THAT(error_of([] { range(6).window(INT64_MAX, {.stride = 2}); }), HasSubstr("2^63"));
}

TEST(Window, GoesOnWhereItWasSaved) {
  for (const auto& options : {WindowOptions{}, WindowOptions{.shift = 1, .stride = 2}, WindowOptions{.shift = 5}})
    expect_resumes(
        range(13).window(3, options).flat_map([](const Dataset<Tensor>& window) { return window.batch(3); }));
}

}  // namespace
}  // namespace tutti::data
