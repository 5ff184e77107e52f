// How the values that replicas have for one variable become one.
#include "tutti/tensor/variable_policy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using enum VariableAggregation;

Tensor filled(double value, at::ScalarType type = at::kFloat) { return at::full({5}, value, at::TensorOptions(type)); }

TEST(Aggregations, AreSumMeanOrTheFirst) {
  const std::vector<Tensor> values{filled(1), filled(2), filled(6)};
  EXPECT_TRUE(at::equal(aggregate(sum, values), filled(9)));
  EXPECT_TRUE(at::equal(aggregate(mean, values), filled(3)));
  EXPECT_TRUE(aggregate(only_first_replica, values).is_same(values[0]));
}

TEST(Aggregations, ChangeNoValueThatTheyAreGiven) {
  const std::vector<Tensor> values{filled(1), filled(2)};
  for (const auto aggregation : {sum, mean, only_first_replica}) aggregate(aggregation, values);
  EXPECT_TRUE(at::equal(values[0], filled(1)));
  EXPECT_TRUE(at::equal(values[1], filled(2)));
}

// Three times 0.1, divided by 3, is another number.
TEST(Aggregations, TheMeanOfEqualElementsIsThatElement) {
  const Tensor tenth = filled(0.1, at::kDouble);
  EXPECT_TRUE(at::equal(aggregate(mean, {tenth, tenth.clone(), tenth.clone()}), tenth));
  Tensor other = tenth.clone();
  other[2].fill_(0.7);
  const Tensor both = aggregate(mean, {tenth, tenth.clone(), other});
  for (const int64_t i : {0, 1, 3, 4}) EXPECT_EQ(both[i].item<double>(), 0.1);
  EXPECT_NEAR(both[2].item<double>(), 0.3, 1e-12);
}

TEST(Aggregations, OfOneValueAreIt) {
  const Tensor value = filled(0.1);
  for (const auto aggregation : {sum, mean, only_first_replica})
    EXPECT_TRUE(aggregate(aggregation, {value}).is_same(value)) << to_string(aggregation);
}

TEST(Aggregations, TakeOtherTypesAndGeometries) {
  EXPECT_TRUE(at::equal(aggregate(sum, {filled(1, at::kLong), filled(2, at::kLong)}), filled(3, at::kLong)));
  EXPECT_TRUE(at::equal(aggregate(mean, {filled(1, at::kHalf), filled(2, at::kHalf)}), filled(1.5, at::kHalf)));
  const Tensor rows = at::tensor({1.F, 2.F, 3.F, 4.F}).view({2, 2});
  EXPECT_TRUE(at::equal(aggregate(sum, {rows, rows.t()}), rows + rows.t()));
  EXPECT_EQ(aggregate(mean, {rows.slice(0, 0, 0), rows.slice(0, 0, 0)}).numel(), 0);
}

TEST(Aggregations, WithoutOneThereIsNoValue) {
  EXPECT_THAT(error_of([] { aggregate(none, {filled(1), filled(2)}); }), testing::HasSubstr("without aggregation"));
}

TEST(Aggregations, AreCalledAsInTensorFlow) {
  EXPECT_EQ(to_string(only_first_replica), "only_first_replica");
  EXPECT_EQ(to_string(VariableSynchronization::on_read), "on_read");
  EXPECT_EQ(to_string(VariableSynchronization::auto_), "auto_");
}

}  // namespace
}  // namespace tutti
