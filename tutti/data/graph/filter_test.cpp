#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

bool is_even(const Tensor& x) { return x.item<int64_t>() % 2 == 0; }

TEST(Filter, KeepsWhatThePredicateIsTrueFor) {
  const auto even = range(7).filter(is_even);
  EXPECT_EQ(numbers(even), (Numbers{{0}, {2}, {4}, {6}}));
  EXPECT_EQ(even.cardinality(), kUnknown);
  EXPECT_EQ(numbers(range(7).filter([](const Tensor&) { return false; })), Numbers{});
}

TEST(Filter, GetsThePartsOfTuples) {
  const auto pairs = range(5).enumerate().filter([](const Tensor& index, const Tensor&) { return is_even(index); });
  EXPECT_EQ(numbers(pairs.map([](const Tensor&, const Tensor& x) { return x; })), (Numbers{{0}, {2}, {4}}));
}

TEST(Filter, EndsWithItsConsumerThoughNothingIsKept) {
  const Watchdog watchdog(std::chrono::seconds(60));
  auto dataset = range(1).repeat().filter([](const Tensor&) { return false; }).prefetch(1);
  EXPECT_NO_THROW(dataset.node()->iterate({}));
}

TEST(TakeWhile, StopsAtTheFirstThatIsNot) {
  const auto small = range(9).take_while([](const Tensor& x) { return x.item<int64_t>() % 4 != 3; });
  EXPECT_EQ(numbers(small), (Numbers{{0}, {1}, {2}}));
  EXPECT_EQ(numbers(small.repeat(2)).size(), 6U);
}

}  // namespace
}  // namespace tutti::data
