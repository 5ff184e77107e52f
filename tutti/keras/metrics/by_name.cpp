#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/confusion_counts.h"
#include "tutti/keras/metrics/correlation.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/hinge.h"
#include "tutti/keras/metrics/iou.h"
#include "tutti/keras/metrics/mean_internal.h"
#include "tutti/keras/metrics/precision_recall.h"
#include "tutti/keras/metrics/r2_score.h"
#include "tutti/keras/metrics/regression.h"

namespace tutti::keras::metrics {
namespace {

// Chosen anew for each batch, by what it has.
Metric accuracy_by_shape(std::string name) {
  const BinaryAccuracy binary;
  const SparseCategoricalAccuracy sparse;
  const CategoricalAccuracy categorical;
  const auto contribution = [=](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
    switch (label_kind(y_true, y_pred)) {
      case LabelKind::binary: return binary.contribution(y_true, y_pred, sample_weight);
      case LabelKind::sparse: return sparse.contribution(y_true, y_pred, sample_weight);
      case LabelKind::categorical: break;
    }
    return categorical.contribution(y_true, y_pred, sample_weight);
  };
  return {std::move(name), at::IntArrayRef({2}), Metric::Contribution(contribution), Metric::Result(mean_result),
          Direction::up};
}

struct NamedMetric {
  std::vector<std::string> names;
  std::function<Metric(std::string name)> make;
};

const std::vector<NamedMetric>& metrics_by_name() {
  static const std::vector<NamedMetric> all{
      {{"accuracy", "acc"}, accuracy_by_shape},
      {{"AUC", "auc"}, [](std::string name) -> Metric { return AUC({.name = std::move(name)}); }},
      {{"BinaryAccuracy", "binary_accuracy"},
       [](std::string name) -> Metric { return BinaryAccuracy({.name = std::move(name)}); }},
      {{"BinaryCrossentropy", "binary_crossentropy", "bce", "BCE"},
       [](std::string name) -> Metric { return BinaryCrossentropy({.name = std::move(name)}); }},
      {{"BinaryIoU", "binary_io_u"}, [](std::string name) -> Metric { return BinaryIoU({.name = std::move(name)}); }},
      {{"CategoricalAccuracy", "categorical_accuracy"},
       [](std::string name) -> Metric { return CategoricalAccuracy({.name = std::move(name)}); }},
      {{"CategoricalCrossentropy", "categorical_crossentropy"},
       [](std::string name) -> Metric { return CategoricalCrossentropy({.name = std::move(name)}); }},
      {{"CategoricalHinge", "categorical_hinge"},
       [](std::string name) -> Metric { return CategoricalHinge({.name = std::move(name)}); }},
      {{"ConcordanceCorrelation", "concordance_correlation"},
       [](std::string name) -> Metric { return ConcordanceCorrelation({.name = std::move(name)}); }},
      {{"CosineSimilarity", "cosine_similarity"},
       [](std::string name) -> Metric { return CosineSimilarity({.name = std::move(name)}); }},
      {{"F1Score", "f1_score"}, [](std::string name) -> Metric { return F1Score({.name = std::move(name)}); }},
      {{"FBetaScore", "f_beta_score"},
       [](std::string name) -> Metric { return FBetaScore({.name = std::move(name)}); }},
      {{"FalseNegatives", "false_negatives"},
       [](std::string name) -> Metric { return FalseNegatives({.name = std::move(name)}); }},
      {{"FalsePositives", "false_positives"},
       [](std::string name) -> Metric { return FalsePositives({.name = std::move(name)}); }},
      {{"Hinge", "hinge"}, [](std::string name) -> Metric { return Hinge({.name = std::move(name)}); }},
      {{"KLDivergence", "kl_divergence", "kld", "KLD"},
       [](std::string name) -> Metric { return KLDivergence({.name = std::move(name)}); }},
      {{"LogCoshError", "log_cosh_error", "logcosh"},
       [](std::string name) -> Metric { return LogCoshError({.name = std::move(name)}); }},
      {{"MeanAbsoluteError", "mean_absolute_error", "mae", "MAE"},
       [](std::string name) -> Metric { return MeanAbsoluteError({.name = std::move(name)}); }},
      {{"MeanAbsolutePercentageError", "mean_absolute_percentage_error", "mape", "MAPE"},
       [](std::string name) -> Metric { return MeanAbsolutePercentageError({.name = std::move(name)}); }},
      {{"MeanSquaredError", "mean_squared_error", "mse", "MSE"},
       [](std::string name) -> Metric { return MeanSquaredError({.name = std::move(name)}); }},
      {{"MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", "msle", "MSLE"},
       [](std::string name) -> Metric { return MeanSquaredLogarithmicError({.name = std::move(name)}); }},
      {{"PearsonCorrelation", "pearson_correlation"},
       [](std::string name) -> Metric { return PearsonCorrelation({.name = std::move(name)}); }},
      {{"Poisson", "poisson"}, [](std::string name) -> Metric { return Poisson({.name = std::move(name)}); }},
      {{"Precision", "precision"}, [](std::string name) -> Metric { return Precision({.name = std::move(name)}); }},
      {{"R2Score", "r2_score"}, [](std::string name) -> Metric { return R2Score({.name = std::move(name)}); }},
      {{"Recall", "recall"}, [](std::string name) -> Metric { return Recall({.name = std::move(name)}); }},
      {{"RootMeanSquaredError", "root_mean_squared_error"},
       [](std::string name) -> Metric { return RootMeanSquaredError({.name = std::move(name)}); }},
      {{"SparseCategoricalAccuracy", "sparse_categorical_accuracy"},
       [](std::string name) -> Metric { return SparseCategoricalAccuracy({.name = std::move(name)}); }},
      {{"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"},
       [](std::string name) -> Metric { return SparseCategoricalCrossentropy({.name = std::move(name)}); }},
      {{"SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy"},
       [](std::string name) -> Metric { return SparseTopKCategoricalAccuracy({.name = std::move(name)}); }},
      {{"SquaredHinge", "squared_hinge"},
       [](std::string name) -> Metric { return SquaredHinge({.name = std::move(name)}); }},
      {{"TopKCategoricalAccuracy", "top_k_categorical_accuracy"},
       [](std::string name) -> Metric { return TopKCategoricalAccuracy({.name = std::move(name)}); }},
      {{"TrueNegatives", "true_negatives"},
       [](std::string name) -> Metric { return TrueNegatives({.name = std::move(name)}); }},
      {{"TruePositives", "true_positives"},
       [](std::string name) -> Metric { return TruePositives({.name = std::move(name)}); }}};
  return all;
}

Metric metric_of(const std::string& name) {
  std::string known;
  for (const NamedMetric& metric : metrics_by_name()) {
    if (std::ranges::find(metric.names, name) != metric.names.end()) return metric.make(name);
    known += str(known.empty() ? "" : ", ", metric.names.back());
  }
  throw Error(ErrorCode::invalid_argument, str("there is no metric \"", name, "\"; there are ", known));
}

}  // namespace

Metric::Metric(const char* name) : Metric(metric_of(name)) {
  if (made_from().class_name.empty()) tell_made_from({.class_name = name});
}

}  // namespace tutti::keras::metrics
