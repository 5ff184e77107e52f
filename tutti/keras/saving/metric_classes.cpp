#include "tutti/core/str.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/confusion_counts.h"
#include "tutti/keras/metrics/correlation.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/hinge.h"
#include "tutti/keras/metrics/iou.h"
#include "tutti/keras/metrics/precision_recall.h"
#include "tutti/keras/metrics/r2_score.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/metrics/sensitivity_specificity.h"
#include "tutti/keras/saving/compiled_classes.h"

namespace tutti::keras {
namespace {

using metrics::Metric;

// The dtype that results are in, which are float64 here.
template <class Options>
void list_nothing(LayerConfig& config, Options&) {
  config.skip({"dtype"});
}

// As many as a file may ask for: a metric has memory for each of them.
void list_bounded(LayerConfig& config, const std::string& name, int64_t& value, int64_t most) {
  config.option(name, value);
  if (!config.is_written() && value > most)
    config.refuse(str("has ", name, " = ", value, "; ", most, " are supported"));
}

constexpr int64_t kMostThresholds = 1 << 16, kMostClasses = 1 << 12, kMostLabels = 1 << 12;

// Null is one of them.
template <class Value>
void list_or_null(LayerConfig& config, const std::string& name, Value& value, Value of_null,
                  const LayerConfig::Names<Value>& names) {
  if (config.is_written() ? value == of_null : !config.has(name)) {
    if (config.is_written()) config.put(name, "null");
    value = of_null;
    return;
  }
  config.option(name, value, names);
}

void list_threshold(LayerConfig& config, metrics::BinaryAccuracyOptions& options) {
  config.skip({"dtype"});
  config.option("threshold", options.threshold);
}

void list_k(LayerConfig& config, metrics::TopKCategoricalAccuracyOptions& options) {
  config.skip({"dtype"});
  config.option("k", options.k);
}

void list_sparse_k(LayerConfig& config, metrics::SparseTopKCategoricalAccuracyOptions& options) {
  config.skip({"dtype"});
  config.option("k", options.k);
  config.option("from_sorted_ids", options.from_sorted_ids);
}

void list_auc(LayerConfig& config, metrics::AUCOptions& options) {
  using enum metrics::AUCCurve;
  using enum metrics::AUCSummationMethod;
  config.skip({"dtype"});
  list_bounded(config, "num_thresholds", options.num_thresholds, kMostThresholds);
  config.option("curve", options.curve, {{"ROC", roc}, {"PR", pr}, {"PRGAIN", pr_gain}});
  config.option("summation_method", options.summation_method,
                {{"interpolation", interpolation}, {"majoring", majoring}, {"minoring", minoring}});
  config.numbers("thresholds", options.thresholds);
  config.option("multi_label", options.multi_label);
  config.option("num_labels", options.num_labels);
  if (!config.is_written() && options.num_labels.value_or(0) > kMostLabels)
    config.refuse(str("has num_labels = ", *options.num_labels, "; ", kMostLabels, " are supported"));
  config.numbers("label_weights", options.label_weights);
  config.option("from_logits", options.from_logits);
}

void list_counts(LayerConfig& config, metrics::ConfusionCountOptions& options) {
  config.skip({"dtype"});
  config.numbers("thresholds", options.thresholds);
}

template <class Options>
void list_rate(LayerConfig& config, Options& options) {
  config.skip({"dtype"});
  config.numbers("thresholds", options.thresholds);
  config.option("top_k", options.top_k);
  config.option("class_id", options.class_id);
}

template <class Options, double Options::*wanted>
void list_rate_at(LayerConfig& config, Options& options, const char* name) {
  config.skip({"dtype"});
  config.option(name, options.*wanted);
  list_bounded(config, "num_thresholds", options.num_thresholds, kMostThresholds);
  config.option("class_id", options.class_id);
}

void list_at_specificity(LayerConfig& config, metrics::SensitivityAtSpecificityOptions& options) {
  list_rate_at<metrics::SensitivityAtSpecificityOptions, &metrics::SensitivityAtSpecificityOptions::specificity>(
      config, options, "specificity");
}
void list_at_sensitivity(LayerConfig& config, metrics::SpecificityAtSensitivityOptions& options) {
  list_rate_at<metrics::SpecificityAtSensitivityOptions, &metrics::SpecificityAtSensitivityOptions::sensitivity>(
      config, options, "sensitivity");
}
void list_at_recall(LayerConfig& config, metrics::PrecisionAtRecallOptions& options) {
  list_rate_at<metrics::PrecisionAtRecallOptions, &metrics::PrecisionAtRecallOptions::recall>(config, options,
                                                                                              "recall");
}
void list_at_precision(LayerConfig& config, metrics::RecallAtPrecisionOptions& options) {
  list_rate_at<metrics::RecallAtPrecisionOptions, &metrics::RecallAtPrecisionOptions::precision>(config, options,
                                                                                                 "precision");
}

template <class Options>
void list_axis(LayerConfig& config, Options& options) {
  config.skip({"dtype"});
  config.option("axis", options.axis);
}

void list_binary_crossentropy(LayerConfig& config, metrics::BinaryCrossentropyOptions& options) {
  config.skip({"dtype"});
  config.option("from_logits", options.from_logits);
  config.option("label_smoothing", options.label_smoothing);
}

void list_categorical_crossentropy(LayerConfig& config, metrics::CategoricalCrossentropyOptions& options) {
  config.skip({"dtype"});
  config.option("from_logits", options.from_logits);
  config.option("label_smoothing", options.label_smoothing);
  config.option("axis", options.axis);
}

void list_sparse_crossentropy(LayerConfig& config, metrics::SparseCategoricalCrossentropyOptions& options) {
  config.skip({"dtype"});
  config.require({{"axis", "-1"}});
  config.option("from_logits", options.from_logits);
  config.option("ignore_class", options.ignore_class);
}

template <class Options>
void list_f_score(LayerConfig& config, Options& options) {
  using enum metrics::Average;
  config.skip({"dtype"});
  list_or_null(config, "average", options.average, none, {{"micro", micro}, {"macro", macro}, {"weighted", weighted}});
  config.option("threshold", options.threshold);
}

void list_f_beta(LayerConfig& config, metrics::FBetaScoreOptions& options) {
  list_f_score(config, options);
  config.option("beta", options.beta);
}

void list_r2(LayerConfig& config, metrics::R2ScoreOptions& options) {
  using enum metrics::ClassAggregation;
  config.skip({"dtype"});
  if (config.is_written() || config.says("class_aggregation"))
    list_or_null(config, "class_aggregation", options.class_aggregation, none,
                 {{"uniform_average", uniform_average}, {"variance_weighted_average", variance_weighted_average}});
  config.option("num_regressors", options.num_regressors);
}

// Of counts.
void list_dtype(LayerConfig& config, at::ScalarType& dtype) {
  config.option("dtype", dtype,
                {{"int32", at::kInt}, {"int64", at::kLong}, {"float32", at::kFloat}, {"float64", at::kDouble}});
}

template <class Options>
void list_classes(LayerConfig& config, Options& options) {
  list_dtype(config, options.dtype);
  list_bounded(config, "num_classes", options.num_classes, kMostClasses);
  config.option("ignore_class", options.ignore_class);
  config.option("sparse_y_pred", options.sparse_y_pred);
  config.option("axis", options.axis);
}

void list_iou(LayerConfig& config, metrics::IoUOptions& options) {
  list_classes(config, options);
  config.integers("target_class_ids", options.target_class_ids);
  config.option("sparse_y_true", options.sparse_y_true);
}

void list_binary_iou(LayerConfig& config, metrics::BinaryIoUOptions& options) {
  list_dtype(config, options.dtype);
  config.integers("target_class_ids", options.target_class_ids);
  config.option("threshold", options.threshold);
}

void list_mean_iou(LayerConfig& config, metrics::MeanIoUOptions& options) {
  list_classes(config, options);
  config.option("sparse_y_true", options.sparse_y_true);
}

void list_one_hot_iou(LayerConfig& config, metrics::OneHotIoUOptions& options) {
  list_classes(config, options);
  config.integers("target_class_ids", options.target_class_ids);
}

template <class Class, class Options = metrics::MetricOptions,
          void (*list)(LayerConfig&, Options&) = list_nothing<Options>>
CompiledClass<Metric> metric() {
  return compiled_class<Metric, Class, Options, list>();
}

}  // namespace

const CompiledClasses<Metric>& metric_classes() {
  using namespace metrics;
  static const CompiledClasses<Metric> classes{
      {"Accuracy", metric<Accuracy>()},
      {"AUC", metric<AUC, AUCOptions, list_auc>()},
      {"BinaryAccuracy", metric<BinaryAccuracy, BinaryAccuracyOptions, list_threshold>()},
      {"BinaryCrossentropy", metric<BinaryCrossentropy, BinaryCrossentropyOptions, list_binary_crossentropy>()},
      {"BinaryIoU", metric<BinaryIoU, BinaryIoUOptions, list_binary_iou>()},
      {"CategoricalAccuracy", metric<CategoricalAccuracy>()},
      {"CategoricalCrossentropy",
       metric<CategoricalCrossentropy, CategoricalCrossentropyOptions, list_categorical_crossentropy>()},
      {"CategoricalHinge", metric<CategoricalHinge>()},
      {"ConcordanceCorrelation",
       metric<ConcordanceCorrelation, ConcordanceCorrelationOptions, list_axis<ConcordanceCorrelationOptions>>()},
      {"CosineSimilarity", metric<CosineSimilarity, CosineSimilarityOptions, list_axis<CosineSimilarityOptions>>()},
      {"F1Score", metric<F1Score, F1ScoreOptions, list_f_score<F1ScoreOptions>>()},
      {"FBetaScore", metric<FBetaScore, FBetaScoreOptions, list_f_beta>()},
      {"FalseNegatives", metric<FalseNegatives, ConfusionCountOptions, list_counts>()},
      {"FalsePositives", metric<FalsePositives, ConfusionCountOptions, list_counts>()},
      {"Hinge", metric<Hinge>()},
      {"IoU", metric<IoU, IoUOptions, list_iou>()},
      {"KLDivergence", metric<KLDivergence>()},
      {"LogCoshError", metric<LogCoshError>()},
      {"MeanAbsoluteError", metric<MeanAbsoluteError>()},
      {"MeanAbsolutePercentageError", metric<MeanAbsolutePercentageError>()},
      {"MeanIoU", metric<MeanIoU, MeanIoUOptions, list_mean_iou>()},
      {"MeanSquaredError", metric<MeanSquaredError>()},
      {"MeanSquaredLogarithmicError", metric<MeanSquaredLogarithmicError>()},
      {"OneHotIoU", metric<OneHotIoU, OneHotIoUOptions, list_one_hot_iou>()},
      {"OneHotMeanIoU", metric<OneHotMeanIoU, OneHotMeanIoUOptions, list_classes<OneHotMeanIoUOptions>>()},
      {"PearsonCorrelation",
       metric<PearsonCorrelation, PearsonCorrelationOptions, list_axis<PearsonCorrelationOptions>>()},
      {"Poisson", metric<Poisson>()},
      {"Precision", metric<Precision, PrecisionOptions, list_rate<PrecisionOptions>>()},
      {"PrecisionAtRecall", metric<PrecisionAtRecall, PrecisionAtRecallOptions, list_at_recall>()},
      {"R2Score", metric<R2Score, R2ScoreOptions, list_r2>()},
      {"Recall", metric<Recall, RecallOptions, list_rate<RecallOptions>>()},
      {"RecallAtPrecision", metric<RecallAtPrecision, RecallAtPrecisionOptions, list_at_precision>()},
      {"RootMeanSquaredError", metric<RootMeanSquaredError>()},
      {"SensitivityAtSpecificity",
       metric<SensitivityAtSpecificity, SensitivityAtSpecificityOptions, list_at_specificity>()},
      {"SparseCategoricalAccuracy", metric<SparseCategoricalAccuracy>()},
      {"SparseCategoricalCrossentropy",
       metric<SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions, list_sparse_crossentropy>()},
      {"SparseTopKCategoricalAccuracy",
       metric<SparseTopKCategoricalAccuracy, SparseTopKCategoricalAccuracyOptions, list_sparse_k>()},
      {"SpecificityAtSensitivity",
       metric<SpecificityAtSensitivity, SpecificityAtSensitivityOptions, list_at_sensitivity>()},
      {"SquaredHinge", metric<SquaredHinge>()},
      {"TopKCategoricalAccuracy", metric<TopKCategoricalAccuracy, TopKCategoricalAccuracyOptions, list_k>()},
      {"TrueNegatives", metric<TrueNegatives, ConfusionCountOptions, list_counts>()},
      {"TruePositives", metric<TruePositives, ConfusionCountOptions, list_counts>()},
  };
  return classes;
}

}  // namespace tutti::keras
