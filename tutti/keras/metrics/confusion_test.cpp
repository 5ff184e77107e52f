// The metrics that count true and false positives and negatives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/confusion_counts.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/iou.h"
#include "tutti/keras/metrics/precision_recall.h"
#include "tutti/keras/metrics/sensitivity_specificity.h"

namespace tutti::keras::metrics {
namespace {

using ::testing::HasSubstr;

Tensor labels() { return at::tensor({1.0, 1.0, 1.0, 0.0, 0.0, 0.0}); }
Tensor predictions() { return at::tensor({0.9, 0.6, 0.2, 0.7, 0.3, 0.1}); }

Tensor result(const Metric& metric, const Tensor& y_true, const Tensor& y_pred, const Tensor& weight = {}) {
  metric.reset_state();
  metric.update_state(y_true, y_pred, weight);
  return metric.result();
}

double number(const Metric& metric, const Tensor& y_true, const Tensor& y_pred, const Tensor& weight = {}) {
  return result(metric, y_true, y_pred, weight).item<double>();
}

Tensor numbers(std::vector<double> values) { return at::tensor(values, at::kDouble); }

TEST(ConfusionCounts, CountOrSumWeights) {
  EXPECT_EQ(number(TruePositives(), labels(), predictions()), 2);
  EXPECT_EQ(number(FalsePositives(), labels(), predictions()), 1);
  EXPECT_EQ(number(TrueNegatives(), labels(), predictions()), 2);
  EXPECT_EQ(number(FalseNegatives(), labels(), predictions()), 1);
  const Tensor weight = at::tensor({2.0, 0.5, 4.0, 1.0, 1.0, 3.0});
  EXPECT_EQ(number(TruePositives(), labels(), predictions(), weight), 2.5);
  EXPECT_EQ(number(TrueNegatives(), labels(), predictions(), weight), 4);
}

TEST(ConfusionCounts, AnswerInTheOrderOfTheThresholds) {
  const TruePositives counts({.thresholds = {0.8, 0.1, 0.5}});
  EXPECT_TRUE(at::equal(result(counts, labels(), predictions()), numbers({1, 3, 2})));
  // At equal distances from 0 to 1 they are counted by another way.
  const TruePositives even({.thresholds = {0, 0.25, 0.5, 0.75, 1}});
  EXPECT_TRUE(at::equal(result(even, labels(), predictions()), numbers({3, 2, 2, 1, 0})));
}

TEST(ConfusionCounts, RefuseThresholdsOutsideOfTheUnitInterval) {
  EXPECT_THAT(error_of([] {
                TruePositives({.thresholds = {0.5, 1.5}});
              }),
              HasSubstr("true_positives: a threshold is 1.5; it must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { Recall({.thresholds = {-0.1}}); }), HasSubstr("it must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { AUC({.thresholds = {0.5, std::nan("")}}); }), HasSubstr("it must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { FalseNegatives({.thresholds = {}}); }), HasSubstr("there is no threshold"));
}

TEST(ConfusionCounts, RefuseShapesThatDoNotFit) {
  EXPECT_THAT(error_of([] { TruePositives().update_state(at::ones({3}), at::ones({4})); }),
              HasSubstr("labels of shape (3,) do not fit predictions of shape (4,)"));
  EXPECT_THAT(error_of([] { TruePositives().update_state(at::ones({3}), at::ones({3}), at::ones({2})); }),
              HasSubstr("weights of shape (2,) do not fit values of shape (3,)"));
}

TEST(ConfusionCounts, TakePredictionsThatAreNoNumbersForNegative) {
  const Tensor p = at::tensor({std::nan(""), std::numeric_limits<double>::infinity(), -5.0});
  for (const auto& thresholds : {std::vector<double>{0.5, 0.6}, std::vector<double>{0, 0.5, 1}}) {
    const Tensor counts = result(TruePositives({.thresholds = thresholds}), at::ones({3}), p);
    EXPECT_EQ(counts[0].item<double>(), 1);
  }
}

TEST(PrecisionAndRecall, AreRatios) {
  EXPECT_NEAR(number(Precision(), labels(), predictions()), 2.0 / 3, 1e-9);
  EXPECT_NEAR(number(Recall(), labels(), predictions()), 2.0 / 3, 1e-9);
  EXPECT_EQ(number(Precision(), labels(), at::zeros({6})), 0);
  EXPECT_EQ(number(Recall(), at::zeros({6}), predictions()), 0);
}

TEST(PrecisionAndRecall, KeepTheTopKOfEachSample) {
  const Tensor y = at::tensor({0.0, 1.0, 1.0, 1.0, 0.0, 0.0}).view({2, 3});
  const Tensor p = at::tensor({0.1, 0.3, 0.2, 0.4, 0.4, 0.1}).view({2, 3});
  EXPECT_EQ(number(Precision({.top_k = 1}), y, p), 1);  // of equal predictions the first is kept
  EXPECT_NEAR(number(Recall({.top_k = 1}), y, p), 2.0 / 3, 1e-9);
  EXPECT_NEAR(number(Precision({.top_k = 2}), y, p), 3.0 / 4, 1e-9);
  EXPECT_EQ(number(Precision({.thresholds = {0.35}, .top_k = 2}), y, p), 0.5);
  EXPECT_EQ(number(Recall({.top_k = 2, .class_id = 2}), y, p), 1);
  EXPECT_THAT(error_of([&] { Precision({.top_k = 4}).update_state(y, p); }), HasSubstr("top_k is 4"));
  EXPECT_THAT(error_of([&] { Precision({.class_id = 3}).update_state(y, p); }), HasSubstr("class_id is 3"));
  EXPECT_THAT(error_of([&] { Recall({.top_k = 0}); }), HasSubstr("it must be above 0"));
}

// The chance that a positive is predicted higher than a negative, equal ones counting half.
double rank_statistic(const Tensor& y, const Tensor& p) {
  const Tensor positives = p.masked_select(y == 1).unsqueeze(1);
  const Tensor negatives = p.masked_select(y == 0).unsqueeze(0);
  return ((positives > negatives).to(at::kDouble) + 0.5 * (positives == negatives)).mean().item<double>();
}

TEST(AUC, IsTheChanceToRankAPositiveAboveANegative) {
  const Tensor y = at::randint(2, {300}, at::kFloat);
  const Tensor p = at::randint(0, 40, {300}, at::kFloat) / 41 + 0.01 * y;
  EXPECT_NEAR(number(AUC({.num_thresholds = 4001}), y, p), rank_statistic(y, p), 1e-6);
  EXPECT_NEAR(number(AUC({.num_thresholds = 4001, .from_logits = true}), y, p.logit()), rank_statistic(y, p), 1e-6);
}

TEST(AUC, LiesBetweenItsMinorAndMajorSums) {
  for (const AUCCurve curve : {AUCCurve::roc, AUCCurve::pr}) {
    const auto area = [&](AUCSummationMethod method) {
      return number(AUC({.num_thresholds = 5, .curve = curve, .summation_method = method}), labels(), predictions());
    };
    EXPECT_LT(area(AUCSummationMethod::minoring), area(AUCSummationMethod::interpolation));
    EXPECT_LT(area(AUCSummationMethod::interpolation), area(AUCSummationMethod::majoring));
  }
}

TEST(AUC, OfGainsIsThatOfPrecisionAndRecallScaled) {
  // At the one threshold precision and recall are 2/3; half of the labels are positive, so that both gains are 1/2.
  const AUC area({.curve = AUCCurve::pr_gain, .summation_method = AUCSummationMethod::minoring, .thresholds = {0.5}});
  EXPECT_NEAR(number(area, labels(), predictions()), 0.5 * 0.5, 1e-9);
}

TEST(AUC, OfSeveralLabelsIsTheirWeightedMean) {
  const Tensor y = at::randint(2, {50, 2}, at::kFloat);
  const Tensor p = at::rand({50, 2});
  const double first = number(AUC(), y.select(1, 0), p.select(1, 0));
  const double second = number(AUC(), y.select(1, 1), p.select(1, 1));
  EXPECT_NEAR(number(AUC({.multi_label = true}), y, p), (first + second) / 2, 1e-9);
  EXPECT_NEAR(number(AUC({.multi_label = true, .label_weights = {3, 1}}), y, p), (3 * first + second) / 4, 1e-9);
  EXPECT_THAT(error_of([&] { AUC({.multi_label = true, .num_labels = 3}).update_state(y, p); }),
              HasSubstr("they must have 3 labels"));
  EXPECT_THAT(error_of([&] { AUC({.multi_label = true}).update_state(labels(), predictions()); }),
              HasSubstr("with multi_label it is (N, labels)"));
  EXPECT_THAT(error_of([&] { AUC({.label_weights = {1}}).update_state(y, p); }),
              HasSubstr("there are 1 label_weights"));
  EXPECT_THAT(error_of([] { AUC({.num_labels = 3}); }), HasSubstr("it needs multi_label"));
  EXPECT_THAT(error_of([] { AUC({.num_thresholds = 1}); }), HasSubstr("it must be above 1"));
}

TEST(RatesUnderADemand, AreTheBestOfAllThresholds) {
  // Positives at 0.9, 0.6, 0.2; negatives at 0.7, 0.3, 0.1.
  EXPECT_NEAR(number(SensitivityAtSpecificity({.specificity = 1}), labels(), predictions()), 1.0 / 3, 1e-9);
  EXPECT_NEAR(number(SensitivityAtSpecificity({.specificity = 0.6}), labels(), predictions()), 2.0 / 3, 1e-9);
  EXPECT_NEAR(number(SpecificityAtSensitivity({.sensitivity = 1}), labels(), predictions()), 1.0 / 3, 1e-9);
  EXPECT_NEAR(number(PrecisionAtRecall({.recall = 0.6}), labels(), predictions()), 2.0 / 3, 1e-9);
  EXPECT_NEAR(number(RecallAtPrecision({.precision = 0.9}), labels(), predictions()), 1.0 / 3, 1e-9);
  EXPECT_EQ(number(RecallAtPrecision({.precision = 0.9}), at::zeros({6}), predictions()), 0);
  EXPECT_THAT(error_of([] { RecallAtPrecision({.precision = 1.2}); }),
              HasSubstr("recall_at_precision: precision is 1.2; it must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { PrecisionAtRecall({.num_thresholds = 0}); }), HasSubstr("it must be above 0"));
}

TEST(FScore, IsTheMeanOfPrecisionAndRecallOfEachClass) {
  const Tensor y = at::tensor({1.0, 0.0, 0.0, 1.0, 0.0, 1.0}).view({3, 2});
  const Tensor p = at::tensor({0.8, 0.1, 0.6, 0.4, 0.2, 0.7}).view({3, 2});
  // Class 0: precision 1/2, recall 1; class 1: precision 1, recall 1/2.
  EXPECT_TRUE(at::allclose(result(F1Score(), y, p), numbers({2.0 / 3, 2.0 / 3}), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(result(FBetaScore({.beta = 2}), y, p), numbers({5 * 0.5 / 3, 5 * 0.5 / 4.5}), 1e-5, 1e-6));
  EXPECT_NEAR(number(FBetaScore({.average = Average::weighted, .beta = 2}), y, p),
              (5 * 0.5 / 3 + 2 * 5 * 0.5 / 4.5) / 3, 1e-5);
  EXPECT_NEAR(number(F1Score({.average = Average::micro, .threshold = 0.65}), y, p), 0.8, 1e-5);
  EXPECT_THAT(error_of([] { F1Score().update_state(at::ones({3}), at::ones({3})); }),
              HasSubstr("both must be (N, classes)"));
  EXPECT_THAT(error_of([] { FBetaScore({.beta = 0}); }), HasSubstr("beta is 0; it must be above 0"));
  EXPECT_THAT(error_of([] { F1Score({.threshold = 1.5}); }), HasSubstr("it must lie in (0, 1]"));
}

Tensor classes(std::vector<int64_t> values) { return at::tensor(values); }

TEST(IoU, IsTheOverlapOfTheClassesThatOccurred) {
  const Tensor y = classes({0, 0, 1, 1, 1, 2});
  const Tensor p = classes({0, 1, 1, 1, 0, 2});
  EXPECT_NEAR(number(MeanIoU({.num_classes = 4}), y, p), (1.0 / 3 + 2.0 / 4 + 1) / 3, 1e-6);
  EXPECT_NEAR(number(IoU({.num_classes = 3, .target_class_ids = {1}}), y, p), 0.5, 1e-6);
  EXPECT_NEAR(number(MeanIoU({.num_classes = 3, .ignore_class = 1}), y, p), (1.0 / 2 + 0 + 1) / 3, 1e-6);
  EXPECT_NEAR(number(MeanIoU({.num_classes = 3, .dtype = at::kFloat}), y, p, numbers({.5, 0, 0, 0, 0, 1})), 1, 1e-6);
  EXPECT_NEAR(number(BinaryIoU({.target_class_ids = {1}}), at::tensor({1.0, 1.0, 0.0}), at::tensor({0.5, 0.1, 0.2})),
              0.5, 1e-6);
}

TEST(IoU, RefusesClassesOutOfRangeWhateverTheirWeight) {
  const MeanIoU metric({.num_classes = 3});
  EXPECT_THAT(error_of([&] {
                metric.update_state(classes({0, 3}), classes({0, 1}), at::zeros({2}));
              }),
              HasSubstr("mean_io_u: a label lies outside of [0, 3)"));
  EXPECT_THAT(error_of([&] {
                metric.update_state(classes({0, 1}), classes({-1, 1}));
              }),
              HasSubstr("a label lies outside of [0, 3)"));
  EXPECT_THAT(error_of([&] { metric.update_state(classes({0, 1}), classes({0, 1, 2})); }), HasSubstr("do not fit"));
  EXPECT_THAT(error_of([] { IoU({.num_classes = 3, .target_class_ids = {3}}); }), HasSubstr("target class 3"));
  EXPECT_EQ(code_of([] { MeanIoU({.num_classes = 0}); }), ErrorCode::invalid_argument);
  MeanIoU({.num_classes = 3, .ignore_class = 255}).update_state(classes({0, 255}), classes({0, 255}));
}

// Replicas have two samples, or what is left: the last of four has none.
TEST(ConfusionMetrics, OfReplicasAreThoseOfOneDevice) {
  const Tensor y = at::randint(2, {5, 3}, at::kFloat);
  const Tensor p = at::rand({5, 3});
  for (const Metric& metric :
       {Metric(AUC({.multi_label = true})), Metric(Precision({.thresholds = {0.7, 0.2}})), Metric(F1Score())})
    for (const int replicas : {1, 2, 4}) {
      const Tensor whole = result(metric, y, p);
      metric.reset_state();
      MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
      strategy.run([&] {
        const int replica = get_replica_context().replica_id_in_sync_group();
        const int64_t first = std::min(2 * replica, 5);
        const int64_t last = replica + 1 == replicas ? 5 : std::min(first + 2, int64_t{5});
        metric.update_state(y.slice(0, first, last), p.slice(0, first, last));
      });
      EXPECT_TRUE(at::allclose(metric.result(), whole)) << metric.name() << " on " << replicas;
    }
}

}  // namespace
}  // namespace tutti::keras::metrics
