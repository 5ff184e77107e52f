#include "tutti/keras/metrics/auc.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/metrics/confusion_internal.h"
#include "tutti/keras/metrics/mean_internal.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

// All but the last of the thresholds, and all but the first.
Tensor left(const Tensor& x) { return x.slice(-1, 0, -1); }
Tensor right(const Tensor& x) { return x.slice(-1, 1); }

// Per label and interval. Source: Keras's AUC.interpolate_pr_auc
Tensor interpolated_pr_areas(const Confusion& counts) {
  const Tensor& tp = counts.true_positives;
  const Tensor predicted = tp + counts.false_positives;
  const Tensor tp_step = left(tp) - right(tp);
  const Tensor slope = divide_no_nan(tp_step, (left(predicted) - right(predicted)).clamp_min(0));
  const Tensor intercept = right(tp) - slope * right(predicted);
  const Tensor both = (left(predicted) > 0).logical_and(right(predicted) > 0);
  const Tensor ratio = at::where(both, divide_no_nan(left(predicted), right(predicted)), 1.0);
  return divide_no_nan(slope * (tp_step + intercept * ratio.log()), right(tp) + right(counts.false_negatives));
}

// One point for each label and threshold.
struct Points {
  Tensor x;
  Tensor y;
};

Points points(AUCCurve curve, const Confusion& counts) {
  const auto& [tp, fp, tn, fn] = counts;
  switch (curve) {
    case AUCCurve::roc: return {.x = divide_no_nan(fp, fp + tn), .y = counts.recall()};
    case AUCCurve::pr: return {.x = counts.recall(), .y = counts.precision()};
    case AUCCurve::pr_gain: break;
  }
  const Tensor odds = divide_no_nan(tp + fn, tn + fp);
  const Tensor none = tp == 0;
  return {.x = (1 - odds * divide_no_nan(fn, tp)).masked_fill(none, 0).clamp_min(0),
          .y = (1 - odds * divide_no_nan(fp, tp)).masked_fill(none, 1)};
}

Tensor riemann_areas(const AUCOptions& options, const Confusion& counts) {
  const auto [x, y] = points(options.curve, counts);
  const Tensor width = left(x) - right(x);
  switch (options.summation_method) {
    case AUCSummationMethod::interpolation: return width * (left(y) + right(y)) / 2;
    case AUCSummationMethod::majoring: return width * at::maximum(left(y), right(y));
    case AUCSummationMethod::minoring: return width * at::minimum(left(y), right(y));
  }
  return width;
}

Tensor area(const AUCOptions& options, const Thresholds& thresholds, const Tensor& state) {
  const Confusion counts = confusion(thresholds, state);
  const bool interpolated_pr =
      options.curve == AUCCurve::pr && options.summation_method == AUCSummationMethod::interpolation;
  const Tensor areas = (interpolated_pr ? interpolated_pr_areas(counts) : riemann_areas(options, counts)).sum(-1);
  if (!options.multi_label || options.label_weights.empty()) return areas.mean();
  const Tensor weights = at::tensor(options.label_weights, at::kDouble);
  return divide_no_nan((areas * weights).sum(), weights.sum());
}

Thresholds thresholds_of(const AUCOptions& options) {
  if (options.thresholds.empty()) {
    if (options.num_thresholds < 2)
      throw Error(ErrorCode::invalid_argument,
                  str(options.name, ": num_thresholds is ", options.num_thresholds, "; it must be above 1"));
    return Thresholds::even(options.name, options.num_thresholds).widen();
  }
  std::vector<double> values = options.thresholds;
  std::sort(values.begin(), values.end());
  values.insert(values.begin(), 0);
  values.push_back(1);
  return Thresholds(options.name, values).widen();
}

void check(const AUCOptions& options) {
  if (options.num_labels && !options.multi_label)
    throw Error(ErrorCode::invalid_argument, str(options.name, ": num_labels is given; it needs multi_label"));
  const auto num_weights = static_cast<int64_t>(options.label_weights.size());
  if (options.num_labels && num_weights > 0 && num_weights != *options.num_labels)
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": there are ", num_weights, " label_weights for ", *options.num_labels, " labels"));
}

// With multi_label the number of labels is fixed by the first contribution, if not before.
void require_labels(const AUCOptions& options, const Tensor& y_pred) {
  if (!options.multi_label || y_pred.dim() != 2) return;
  const int64_t weights = static_cast<int64_t>(options.label_weights.size());
  const int64_t required = options.num_labels.value_or(weights > 0 ? weights : y_pred.size(1));
  if (y_pred.size(1) == required) return;
  throw Error(ErrorCode::invalid_argument, str(options.name, ": predictions have shape ", to_string(y_pred.sizes()),
                                               "; they must have ", required, " labels"));
}

}  // namespace

AUC::AUC(const AUCOptions& options)
    : Metric(
          options.name,
          {2, options.multi_label ? options.num_labels.value_or(kUnknown) : 1, thresholds_of(options).size() + 1},
          [options, thresholds = thresholds_of(options)](const Tensor& y_true, const Tensor& y_pred,
                                                         const Tensor& sample_weight) {
            require_labels(options, y_pred);
            ConfusionOptions counted{.name = options.name, .multi_label = options.multi_label};
            if (!options.multi_label) counted.label_weights = options.label_weights;
            return confusion_contribution(counted, thresholds, y_true,
                                          options.from_logits ? at_least_float(y_pred).sigmoid() : y_pred,
                                          sample_weight);
          },
          [options, thresholds = thresholds_of(options)](const Tensor& state) {
            return area(options, thresholds, state);
          },
          Direction::up) {
  check(options);
  tell_made_from({"AUC", options});
}

}  // namespace tutti::keras::metrics
