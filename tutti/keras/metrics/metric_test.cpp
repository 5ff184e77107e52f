#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {
namespace {

using ::testing::HasSubstr;

double value(const Metric& metric) { return metric.result().item<double>(); }

TEST(Metric, CopiesAreTheSameMetric) {
  const Mean mean;
  const Metric copy = mean;
  mean.update_state(at::tensor({1.0, 2.0}));
  EXPECT_EQ(value(copy), 1.5);
  copy.reset_state();
  EXPECT_EQ(value(mean), 0);
}

TEST(Metric, ContributionsOfReplicasAddUpInAnyPartition) {
  const SparseCategoricalAccuracy whole, parts;
  const Tensor y = at::tensor(std::vector<int64_t>{0, 1, 2, 1, 0});
  const Tensor p = at::rand({5, 3});
  whole.update_state(y, p);
  for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 5}, std::pair{5, 5}})
    parts.add(parts.contribution(y.slice(0, begin, end), p.slice(0, begin, end)));
  EXPECT_EQ(value(parts), value(whole));
}

TEST(Metric, ContributionChangesNothing) {
  const Accuracy accuracy;
  (void)accuracy.contribution(at::ones({3}), at::ones({3}));
  EXPECT_EQ(value(accuracy), 0);
}

TEST(Metric, LeavesWhatItAddsAlone) {
  const Accuracy accuracy;
  const Tensor contribution = at::tensor({1.0, 2.0});
  accuracy.add(contribution);
  accuracy.add(contribution);
  EXPECT_EQ(contribution[0].item<double>(), 1);
  EXPECT_EQ(value(accuracy), 0.5);
}

TEST(Mean, WeighsValues) {
  const Mean mean;
  mean.update_state(at::tensor({1.0, 5.0}), at::tensor({3.0, 1.0}));
  EXPECT_EQ(value(mean), 2);
  mean.update_state(at::ones({4, 2}));
  EXPECT_EQ(value(mean), (8 + 4) / 8.0);
  EXPECT_THAT(error_of([&] { mean.update_state(at::ones({2}), at::ones({2, 3})); }), HasSubstr("invalid_argument"));
}

TEST(Sum, AddsAllElements) {
  const Sum sum;
  sum.update_state(at::ones({4, 2}));
  sum.update_state(at::ones({2}), at::tensor({0.5, 2.0}));
  EXPECT_EQ(value(sum), 10.5);
}

TEST(BinaryAccuracy, RefusesAThresholdOutsideOfTheUnitInterval) {
  EXPECT_THAT(error_of([] { BinaryAccuracy({.threshold = 1}); }), HasSubstr("it must lie in (0, 1)"));
}

}  // namespace
}  // namespace tutti::keras::metrics
