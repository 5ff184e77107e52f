#include "tutti/keras/metrics/precision_recall.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/metrics/confusion_internal.h"

namespace tutti::keras::metrics {
namespace {

template <class Options>
Thresholds thresholds_of(const Options& options) {
  if (options.top_k && *options.top_k < 1)
    throw Error(ErrorCode::invalid_argument, str(options.name, ": top_k is ", *options.top_k, "; it must be above 0"));
  if (!options.thresholds.empty()) return Thresholds(options.name, options.thresholds);
  return options.top_k ? Thresholds::of_top_k() : Thresholds(options.name, {0.5});
}

template <class Options>
Metric rate(const Options& options, Tensor (Confusion::*which)() const) {
  const Thresholds thresholds = thresholds_of(options);
  const ConfusionOptions counted{.name = options.name, .top_k = options.top_k, .class_id = options.class_id};
  return Metric(
      options.name, {2, 1, thresholds.size() + 1},
      [counted, thresholds](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
        return confusion_contribution(counted, thresholds, y_true, y_pred, sample_weight);
      },
      [thresholds, which](const Tensor& state) { return per_threshold((confusion(thresholds, state).*which)()); },
      Direction::up);
}

}  // namespace

Precision::Precision(const PrecisionOptions& options) : Metric(rate(options, &Confusion::precision)) {
  tell_made_from({"Precision", options});
}

Recall::Recall(const RecallOptions& options) : Metric(rate(options, &Confusion::recall)) {
  tell_made_from({"Recall", options});
}

}  // namespace tutti::keras::metrics
