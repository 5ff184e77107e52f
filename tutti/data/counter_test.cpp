#include "tutti/data/counter.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/support/dataset_values.h"
#include "tutti/data/random.h"

namespace tutti::data {
namespace {

using ::testing::StartsWith;

// What follows after `count` elements, in an iterator that was restored there.
Tensor resumed(const Dataset<Tensor>& dataset, int count) {
  graph::Element element;
  const auto iterator = dataset.node()->iterate({});
  for (int i = 0; i < count; ++i) EXPECT_TRUE(iterator->next(element));
  graph::StateWriter writer({});
  iterator->save(writer);
  graph::StateReader reader(writer.finish(), {});
  const auto other = dataset.node()->iterate({});
  other->restore(reader);
  reader.finish();
  EXPECT_TRUE(other->next(element));
  return from_element<Tensor>(element);
}

TEST(Counter, CountsWithoutEnd) {
  EXPECT_EQ(counter().cardinality(), kInfinite);
  EXPECT_EQ(numbers(counter().take(3)), (Numbers{{0}, {1}, {2}}));
  EXPECT_EQ(numbers(counter(10, -4).take(3)), (Numbers{{10}, {6}, {2}}));
  EXPECT_EQ(counter().begin()->scalar_type(), at::kLong);
  EXPECT_EQ(resumed(counter(5, 2), 3).item<int64_t>(), 11);
}

TEST(Counter, DoesNotWrapAround) {
  const auto last = counter(INT64_MAX - 1);
  EXPECT_EQ(last.take(2).batch(2).begin()->select(0, 1).item<int64_t>(), INT64_MAX);
  EXPECT_THAT(error_of([&] { *last.batch(3).begin(); }), StartsWith("out_of_range: counter"));
}

TEST(Random, GivesTheSameNumbersForOneSeed) {
  const auto a = numbers(random(7).take(100)), b = numbers(random(7).take(100));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, numbers(random(8).take(100)));
  EXPECT_NE(numbers(random().take(9)), numbers(random().take(9)));
  EXPECT_EQ(random(7).cardinality(), kInfinite);
  EXPECT_EQ(random(7).begin()->scalar_type(), at::kLong);
  EXPECT_EQ(resumed(random(7), 3).item<int64_t>(), static_cast<int64_t>(a[3][0]));
}

TEST(Random, IsSpreadOver32Bits) {
  double sum = 0, greatest = 0;
  for (const auto& element : numbers(random(1).take(1000))) {
    EXPECT_GE(element[0], 0);
    sum += element[0];
    greatest = std::max(greatest, element[0]);
  }
  EXPECT_LT(greatest, 0x1p32);
  EXPECT_GT(greatest, 0x1p31);
  EXPECT_NEAR(sum / 1000, 0x1p31, 0x1p31 / 10);  // five standard deviations
}

}  // namespace
}  // namespace tutti::data
