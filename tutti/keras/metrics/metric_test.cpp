#include "tutti/keras/metrics/metric.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/confusion_counts.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/iou.h"
#include "tutti/keras/metrics/mean.h"
#include "tutti/keras/metrics/precision_recall.h"
#include "tutti/keras/metrics/regression.h"

namespace tutti::keras::metrics {
namespace {

using ::testing::HasSubstr;

double result_of(const Metric& metric) { return metric.result().item<double>(); }

TEST(Metric, CopiesAreTheSameMetric) {
  const Mean mean;
  const Metric copy = mean;
  mean.update_state(at::tensor({1.0, 2.0}));
  EXPECT_EQ(result_of(copy), 1.5);
  copy.reset_state();
  EXPECT_EQ(result_of(mean), 0);
}

TEST(Metric, ContributionsOfReplicasAddUpInAnyPartition) {
  const SparseCategoricalAccuracy whole, parts;
  const Tensor y = at::tensor(std::vector<int64_t>{0, 1, 2, 1, 0});
  const Tensor p = at::rand({5, 3});
  whole.update_state(y, p);
  for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 5}, std::pair{5, 5}})
    parts.add(parts.contribution(y.slice(0, begin, end), p.slice(0, begin, end)));
  EXPECT_EQ(result_of(parts), result_of(whole));
}

TEST(Metric, ContributionChangesNothing) {
  const Accuracy accuracy;
  (void)accuracy.contribution(at::ones({3}), at::ones({3}));
  EXPECT_EQ(result_of(accuracy), 0);
}

TEST(Metric, LeavesWhatItAddsAlone) {
  const Accuracy accuracy;
  const Tensor contribution = at::tensor({1.0, 2.0});
  accuracy.add(contribution);
  accuracy.add(contribution);
  EXPECT_EQ(contribution[0].item<double>(), 1);
  EXPECT_EQ(result_of(accuracy), 0.5);
}

TEST(Metric, OfUnknownShapeLearnsItFromTheFirstUpdate) {
  const F1Score score({.average = Average::macro});
  EXPECT_THAT(error_of([&] { score.result(); }),
              HasSubstr("failed_precondition: f1_score: no samples were seen, so the number of classes is not known"));
  score.update_state(at::ones({2, 3}), at::ones({2, 3}));
  EXPECT_NEAR(result_of(score), 1, 1e-6);
  EXPECT_THAT(error_of([&] {
                score.update_state(at::ones({2, 4}), at::ones({2, 4}));
              }),
              HasSubstr("these samples have a state of shape (4, 4), those before of (4, 3)"));
  score.reset_state();
  score.update_state(at::ones({2, 4}), at::ones({2, 4}));
  EXPECT_NEAR(result_of(score), 1, 1e-6);
}

TEST(Metric, GivesMaskedSamplesNoWeight) {
  const Tensor y = at::tensor({1.0, 0.0, 1.0});
  const Tensor p = at::tensor({0.9, 0.8, 0.2});
  const Tensor mask = at::tensor({1, 0, 1}).to(at::kBool);
  const Tensor weight = at::tensor({1.0, 5.0, 3.0});
  const BinaryAccuracy accuracy;
  accuracy.update_state(y.view({3, 1}), p.view({3, 1}), weight, mask);
  EXPECT_NEAR(result_of(accuracy), 0.25, 1e-9);
  const Precision precision;
  precision.update_state(y, p, {}, mask);
  EXPECT_EQ(result_of(precision), 1);
  const SparseCategoricalAccuracy steps;
  steps.update_state(at::tensor({0, 1, 0, 0}).view({2, 2}), at::tensor({0.9, 0.1}).expand({2, 2, 2}),
                     at::tensor({1.0, 2.0}), at::tensor({1, 1, 0, 1}).view({2, 2}).to(at::kBool));
  EXPECT_NEAR(result_of(steps), 3.0 / 4, 1e-9);
}

TEST(Metric, SaysWhichWayIsBetter) {
  EXPECT_EQ(BinaryAccuracy().direction(), Direction::up);
  EXPECT_EQ(AUC().direction(), Direction::up);
  EXPECT_EQ(CosineSimilarity().direction(), Direction::up);
  EXPECT_EQ(MeanSquaredError().direction(), Direction::down);
  EXPECT_EQ(KLDivergence().direction(), Direction::down);
  EXPECT_EQ(Mean().direction(), Direction::unknown);
  EXPECT_EQ(FalsePositives().direction(), Direction::unknown);
}

TEST(Metric, CarriesKerasName) {
  EXPECT_EQ(MeanIoU({.num_classes = 2}).name(), "mean_io_u");
  EXPECT_EQ(LogCoshError().name(), "logcosh");
  EXPECT_EQ(F1Score().name(), "f1_score");
  EXPECT_EQ(TruePositives().name(), "true_positives");
  EXPECT_EQ(Recall({.name = "found"}).name(), "found");
}

TEST(Mean, WeighsValues) {
  const Mean mean;
  mean.update_state(at::tensor({1.0, 5.0}), at::tensor({3.0, 1.0}));
  EXPECT_EQ(result_of(mean), 2);
  mean.update_state(at::ones({4, 2}));
  EXPECT_EQ(result_of(mean), (8 + 4) / 8.0);
  EXPECT_THAT(error_of([&] { mean.update_state(at::ones({2}), at::ones({2, 3})); }), HasSubstr("invalid_argument"));
}

TEST(Sum, AddsAllElements) {
  const Sum sum;
  sum.update_state(at::ones({4, 2}));
  sum.update_state(at::ones({2}), at::tensor({0.5, 2.0}));
  EXPECT_EQ(result_of(sum), 10.5);
}

TEST(BinaryAccuracy, RefusesAThresholdOutsideOfTheUnitInterval) {
  EXPECT_THAT(error_of([] { BinaryAccuracy({.threshold = 1}); }), HasSubstr("it must lie in (0, 1)"));
}

TEST(Mean, GivesAllSamplesTheWeightOfOne) {
  const Mean mean;
  mean.update_state(at::tensor({1.0, 5.0}), at::tensor({0.5}));
  EXPECT_EQ(result_of(mean), 3);
  mean.update_state(at::tensor({9.0}), at::tensor({1.0}));
  EXPECT_EQ(result_of(mean), (0.5 * 6 + 9) / 2);
  EXPECT_THAT(error_of([&] { mean.update_state(at::ones({3}), at::ones({2})); }),
              HasSubstr("mean: weights of shape (2,) do not fit values of shape (3,)"));
}

}  // namespace
}  // namespace tutti::keras::metrics
