#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

TEST(FromGenerator, BeginsAnewInEachPass) {
  int passes = 0;
  const auto count_to_3 = [&passes] {
    ++passes;
    return [n = int64_t{0}]() mutable -> std::optional<Tensor> {
      if (n == 3) return std::nullopt;
      return at::full({}, n++);
    };
  };
  const auto dataset = from_generator(count_to_3);
  EXPECT_EQ(dataset.cardinality(), kUnknown);
  EXPECT_EQ(passes, 0);
  EXPECT_EQ(numbers(dataset), (Numbers{{0}, {1}, {2}}));
  EXPECT_EQ(numbers(dataset.repeat(2)).size(), 6U);
  EXPECT_EQ(passes, 3);
}

TEST(FromGenerator, GivesStructuresAndText) {
  const auto once = [] {
    return [done = false]() mutable -> std::optional<std::tuple<Strings, Tensor>> {
      if (std::exchange(done, true)) return std::nullopt;
      return std::tuple(Strings("a"), at::full({}, 1));
    };
  };
  for (const auto& [text, number] : from_generator(once)) {
    EXPECT_EQ(text.item(), "a");
    EXPECT_EQ(number.item<int64_t>(), 1);
  }
}

}  // namespace
}  // namespace tutti::data
