#include "tutti/keras/metrics/confusion_counts.h"

#include "tutti/keras/metrics/confusion_internal.h"

namespace tutti::keras::metrics {
namespace {

Metric count(const ConfusionCountOptions& options, const char* default_name, Tensor Confusion::*which) {
  const std::string name = options.name.empty() ? default_name : options.name;
  const Thresholds thresholds(name, options.thresholds);
  return Metric(
      name, {2, 1, thresholds.size() + 1},
      [name, thresholds](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
        return confusion_contribution({.name = name}, thresholds, y_true, y_pred, sample_weight);
      },
      [thresholds, which](const Tensor& state) { return per_threshold(confusion(thresholds, state).*which); });
}

}  // namespace

TruePositives::TruePositives(const ConfusionCountOptions& options)
    : Metric(count(options, "true_positives", &Confusion::true_positives)) {
  tell_made_from({"TruePositives", options});
}

TrueNegatives::TrueNegatives(const ConfusionCountOptions& options)
    : Metric(count(options, "true_negatives", &Confusion::true_negatives)) {
  tell_made_from({"TrueNegatives", options});
}

FalsePositives::FalsePositives(const ConfusionCountOptions& options)
    : Metric(count(options, "false_positives", &Confusion::false_positives)) {
  tell_made_from({"FalsePositives", options});
}

FalseNegatives::FalseNegatives(const ConfusionCountOptions& options)
    : Metric(count(options, "false_negatives", &Confusion::false_negatives)) {
  tell_made_from({"FalseNegatives", options});
}

}  // namespace tutti::keras::metrics
