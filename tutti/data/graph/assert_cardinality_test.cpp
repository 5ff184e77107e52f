#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

const auto kUncounted = range(5).filter([](const Tensor&) { return true; });

TEST(AssertCardinality, TellsWhatTheGraphDoesNot) {
  EXPECT_EQ(kUncounted.assert_cardinality(5).batch(2).cardinality(), 3);
  EXPECT_EQ(numbers(kUncounted.assert_cardinality(5)), numbers(range(5)));
  EXPECT_EQ(numbers(kUncounted.repeat().assert_cardinality(kInfinite).take(7)).size(), 7U);
}

TEST(AssertCardinality, ThrowsWhereItIsWrong) {
  EXPECT_EQ(error_of([] { numbers(kUncounted.assert_cardinality(6)); }),
            "failed_precondition: assert_cardinality: the dataset has 5 elements; 6 was asserted");
  EXPECT_EQ(error_of([] { numbers(kUncounted.assert_cardinality(4)); }),
            "failed_precondition: assert_cardinality: the dataset has more than 4 elements; 4 was asserted");
  EXPECT_THAT(error_of([] { numbers(kUncounted.assert_cardinality(kInfinite)); }), HasSubstr("no end was asserted"));
  EXPECT_THAT(error_of([] { range(5).assert_cardinality(4); }), HasSubstr("invalid_argument: assert_cardinality: 4"));
  EXPECT_THAT(error_of([] { kUncounted.assert_cardinality(-2); }), HasSubstr("assert_cardinality: -2"));
}

TEST(AssertCardinality, GoesOnWhereItWasSaved) { expect_resumes(kUncounted.assert_cardinality(5)); }

}  // namespace
}  // namespace tutti::data
