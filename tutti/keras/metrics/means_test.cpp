// The metrics that are means of a function: regression, correlation, crossentropies, accuracies.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/correlation.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/hinge.h"
#include "tutti/keras/metrics/r2_score.h"
#include "tutti/keras/metrics/regression.h"

namespace tutti::keras::metrics {
namespace {

using ::testing::HasSubstr;

double value(const Metric& metric) { return metric.result().item<double>(); }

double mean_of(const Metric& metric, const Tensor& y_true, const Tensor& y_pred, const Tensor& weight = {}) {
  metric.reset_state();
  metric.update_state(y_true, y_pred, weight);
  return value(metric);
}

TEST(RootMeanSquaredError, TakesTheRootOfTheMeanOfAllUpdates) {
  const RootMeanSquaredError metric;
  metric.update_state(at::zeros({2, 1}), at::tensor({3.0, 5.0}).view({2, 1}));
  metric.update_state(at::zeros({1, 1}), at::tensor({4.0}).view({1, 1}));
  EXPECT_NEAR(value(metric), std::sqrt(50.0 / 3), 1e-6);
}

TEST(CosineSimilarity, IsOneForTheSameDirection) {
  EXPECT_NEAR(mean_of(CosineSimilarity(), at::tensor({1.0, 2.0}).view({1, 2}), at::tensor({2.0, 4.0}).view({1, 2})), 1,
              1e-6);
}

TEST(Hinge, IsTheMeanOfTheLoss) {
  const Tensor y = at::tensor({0.0, 1.0}).view({2, 1});
  const Tensor p = at::tensor({-0.5, 2.0}).view({2, 1});
  EXPECT_NEAR(mean_of(Hinge(), y, p), 0.25, 1e-6);
  EXPECT_NEAR(mean_of(SquaredHinge(), y, p), 0.125, 1e-6);
}

TEST(Correlations, CompareTheNumbersOfEachSample) {
  const Tensor y = at::randn({2, 50}, at::kDouble);
  EXPECT_NEAR(mean_of(PearsonCorrelation(), y, 3 * y - 7), 1, 1e-9);
  EXPECT_NEAR(mean_of(PearsonCorrelation(), y, -y), -1, 1e-9);
  EXPECT_NEAR(mean_of(ConcordanceCorrelation(), y, y), 1, 1e-6);
  // A shift by one counts as much as its square does beside the variances.
  const double variance = (y - y.mean(1, true)).square().mean(1)[0].item<double>();
  EXPECT_NEAR(mean_of(ConcordanceCorrelation(), y.slice(0, 0, 1), y.slice(0, 0, 1) + 1),
              2 * variance / (2 * variance + 1), 1e-6);
  EXPECT_TRUE(std::isnan(mean_of(PearsonCorrelation(), y, at::ones({2, 50}, at::kDouble))));
}

TEST(R2Score, IsThePartOfTheVarianceThatIsExplained) {
  const Tensor y = at::tensor({1.0, 10.0, 2.0, 20.0, 3.0, 30.0}).view({3, 2});
  const Tensor p = at::tensor({1.5, 10.0, 2.0, 20.0, 3.0, 20.0}).view({3, 2});
  const double first = 1 - 0.25 / 2, second = 1 - 100.0 / 200;
  EXPECT_NEAR(mean_of(R2Score(), y, p), (first + second) / 2, 1e-9);
  EXPECT_NEAR(mean_of(R2Score({.class_aggregation = ClassAggregation::variance_weighted_average}), y, p),
              (2 * first + 200 * second) / 202, 1e-9);
  const R2Score each({.class_aggregation = ClassAggregation::none});
  each.update_state(y, p);
  EXPECT_TRUE(at::allclose(each.result(), at::tensor({first, second}, at::kDouble)));
}

TEST(R2Score, CountsSamplesNotOutputsToAdjustTheScore) {
  const Tensor y = at::randn({6, 2});
  const Tensor p = y + at::randn({6, 2});
  const double plain = mean_of(R2Score(), y, p);
  EXPECT_NEAR(mean_of(R2Score({.num_regressors = 2}), y, p), 1 - (1 - plain) * 5 / 3, 1e-9);
  const Tensor weight = at::tensor({1.0, 1.0, 1.0, 1.0, 1.0, 0.0});
  EXPECT_NEAR(mean_of(R2Score({.num_regressors = 2}), y, p, weight), 1 - (1 - mean_of(R2Score(), y, p, weight)) * 4 / 2,
              1e-9);

  const CollectedWarnings warnings;
  EXPECT_NEAR(mean_of(R2Score({.num_regressors = 5}), y, p), plain, 1e-9);
  EXPECT_THAT(warnings.lines(), testing::ElementsAre(HasSubstr("6 samples are too few")));
  EXPECT_THAT(error_of([] { R2Score({.num_regressors = -1}); }), HasSubstr("it must be at least 0"));
  EXPECT_THAT(error_of([] { R2Score().update_state(at::ones({3}), at::ones({3})); }), HasSubstr("(N, outputs)"));
}

// A mean over all samples, but over those that count where there are weights: so Keras does it.
TEST(SparseCategoricalCrossentropy, GivesIgnoredLabelsTheValueZero) {
  const Tensor y = at::tensor(std::vector<int64_t>{0, 1, 2});
  const Tensor p = at::tensor({0.8, 0.1, 0.1, 0.05, 0.9, 0.05, 0.1, 0.8, 0.1}).view({3, 3});
  const double second = -std::log(0.9), third = -std::log(0.1);
  const SparseCategoricalCrossentropy metric({.ignore_class = 0});
  EXPECT_NEAR(mean_of(metric, y, p), (second + third) / 3, 1e-6);
  EXPECT_NEAR(mean_of(metric, y, p, at::tensor({4.0, 1.0, 3.0})), (second + 3 * third) / 4, 1e-6);
}

TEST(TopKAccuracy, LetsEqualPredictionsShareAPlace) {
  const Tensor p = at::tensor({0.1, 0.4, 0.4, 0.1}).view({1, 4});
  const auto of_label = [&](int64_t label, int64_t k) {
    return mean_of(SparseTopKCategoricalAccuracy({.k = k}), at::tensor(std::vector<int64_t>{label}), p);
  };
  EXPECT_EQ(of_label(1, 1), 1);
  EXPECT_EQ(of_label(2, 1), 1);
  EXPECT_EQ(of_label(0, 2), 0);
  EXPECT_EQ(of_label(0, 3), 1);
  EXPECT_EQ(mean_of(TopKCategoricalAccuracy({.k = 1}), at::tensor({0.0, 0.0, 1.0, 0.0}).view({1, 4}), p), 1);
  const Tensor infinite = at::tensor({std::numeric_limits<double>::infinity(), 0.0}).view({1, 2});
  EXPECT_EQ(mean_of(SparseTopKCategoricalAccuracy(), at::zeros({1}, at::kLong), infinite), 0);
}

TEST(TopKAccuracy, TakesClassesInTheirOrder) {
  const SparseTopKCategoricalAccuracy metric({.k = 2, .from_sorted_ids = true});
  const Tensor ids = at::tensor({3.0, 1.0, 0.0}).view({1, 3});
  EXPECT_EQ(mean_of(metric, at::tensor(std::vector<int64_t>{1}), ids), 1);
  EXPECT_EQ(mean_of(metric, at::tensor(std::vector<int64_t>{0}), ids), 0);
}

TEST(TopKAccuracy, RefusesLabelsOutOfRangeWhateverTheirWeight) {
  const SparseTopKCategoricalAccuracy metric;
  EXPECT_THAT(error_of([&] {
                metric.update_state(at::tensor({4}), at::ones({1, 4}), at::zeros({1}));
              }),
              HasSubstr("sparse_top_k_categorical_accuracy: a label lies outside of [0, 4)"));
  EXPECT_THAT(error_of([] { TopKCategoricalAccuracy({.k = 0}); }), HasSubstr("k is 0; it must be above 0"));
}

}  // namespace
}  // namespace tutti::keras::metrics
