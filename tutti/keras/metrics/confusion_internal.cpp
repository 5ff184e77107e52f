#include "tutti/keras/metrics/confusion_internal.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/metrics/mean_internal.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

constexpr double kBelowAll = -1e10;  // what predictions outside of the top become. Keras: NEG_INF

// Source: Keras's is_evenly_distributed_thresholds
bool are_even(const std::vector<double>& values) {
  if (values.size() < 3) return false;
  const double last = static_cast<double>(values.size() - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const double even = static_cast<double>(i) / last;
    if (std::abs(values[i] - even) > losses::kEpsilon + 1e-5 * even) return false;
  }
  return true;
}

// Of equal predictions the first are kept, as in TensorFlow.
Tensor keep_top_k(const std::string& name, const Tensor& predictions, int64_t k) {
  if (predictions.dim() < 2 || predictions.size(-1) < k)
    throw Error(ErrorCode::invalid_argument, str(name, ": top_k is ", k, ", and predictions have shape ",
                                                 to_string(predictions.sizes()), "; the last extent must be as large"));
  const auto [values, places] = at::sort(predictions, /*stable=*/true, -1, /*descending=*/true);
  return at::full_like(predictions, kBelowAll).scatter(-1, places.slice(-1, 0, k), values.slice(-1, 0, k));
}

Tensor column(const std::string& name, const Tensor& x, int64_t class_id) {
  if (x.dim() < 2 || class_id < 0 || class_id >= x.size(-1))
    throw Error(ErrorCode::invalid_argument, str(name, ": class_id is ", class_id, ", and predictions have shape ",
                                                 to_string(x.sizes()), "; it must be a place of the last axis"));
  return x.narrow(-1, class_id, 1);
}

// float64, as the predictions.
Tensor weights(const ConfusionOptions& options, const Tensor& sample_weight, const Tensor& predictions) {
  Tensor weight = at::ones({}, predictions.options().dtype(at::kDouble));
  if (sample_weight.defined()) weight = broadcastable_weight(options.name, sample_weight, predictions).to(at::kDouble);
  if (!options.label_weights.empty()) {
    if (predictions.dim() < 2 || predictions.size(-1) != static_cast<int64_t>(options.label_weights.size()))
      throw Error(
          ErrorCode::invalid_argument,
          str(options.name, ": there are ", options.label_weights.size(), " label_weights, and predictions have ",
              "shape ", to_string(predictions.sizes()), "; one for each place of the last axis is needed"));
    weight = weight * at::tensor(options.label_weights, at::kDouble).to(weight.device());
  }
  return weight.expand_as(predictions);
}

}  // namespace

Thresholds::Thresholds(const std::string& name, const std::vector<double>& values)
    : ascending_(values), even_(are_even(values)) {
  if (values.empty()) throw Error(ErrorCode::invalid_argument, str(name, ": there is no threshold"));
  for (const double value : values)
    if (!(value >= 0 && value <= 1))
      throw Error(ErrorCode::invalid_argument, str(name, ": a threshold is ", value, "; it must lie in [0, 1]"));
  if (std::is_sorted(values.begin(), values.end())) return;
  std::sort(ascending_.begin(), ascending_.end());
  for (const double value : values)
    places_.push_back(std::lower_bound(ascending_.begin(), ascending_.end(), value) - ascending_.begin());
}

Thresholds Thresholds::even(const std::string& name, int64_t num) {
  if (num < 1) throw Error(ErrorCode::invalid_argument, str(name, ": num_thresholds is ", num, "; it must be above 0"));
  if (num == 1) return Thresholds(name, {0.5});
  Thresholds thresholds;
  for (int64_t i = 0; i < num; ++i)
    thresholds.ascending_.push_back(static_cast<double>(i) / static_cast<double>(num - 1));
  thresholds.even_ = true;
  return thresholds;
}

Thresholds& Thresholds::widen() {
  ascending_.front() -= losses::kEpsilon;
  ascending_.back() += losses::kEpsilon;
  widened_ = true;
  return *this;
}

Thresholds Thresholds::of_top_k() {
  Thresholds thresholds;
  thresholds.ascending_ = {kBelowAll};
  return thresholds;
}

Tensor Thresholds::num_below(const Tensor& predictions) const {
  if (even_) {
    const int64_t last = size() - 1;
    return (predictions.clamp(0, 1) * last).ceil().to(at::kLong).clamp_(widened_ ? 1 : 0, last);
  }
  Tensor num = predictions.gt(ascending_.front()).to(at::kLong);
  for (size_t i = 1; i < ascending_.size(); ++i) num.add_(predictions.gt(ascending_[i]));
  return num;
}

Tensor Thresholds::as_given(const Tensor& per_threshold) const {
  return places_.empty() ? per_threshold : per_threshold.index_select(-1, at::tensor(places_, at::kLong));
}

Tensor confusion_contribution(const ConfusionOptions& options, const Thresholds& thresholds, const Tensor& y_true,
                              const Tensor& y_pred, const Tensor& sample_weight) {
  auto [labels, predictions] = elementwise_pair(options.name, y_true, at_least_float(y_pred));
  if (options.multi_label && predictions.dim() != 2)
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": predictions have shape ", to_string(predictions.sizes()),
                    "; with multi_label it is (N, labels)"));
  if (options.top_k) predictions = keep_top_k(options.name, predictions, *options.top_k);
  if (options.class_id) {
    labels = column(options.name, labels, *options.class_id);
    predictions = column(options.name, predictions, *options.class_id);
  }
  const int64_t num_labels = options.multi_label ? predictions.size(1) : 1;
  const int64_t num_buckets = thresholds.size() + 1;
  Tensor place = thresholds.num_below(predictions) + labels.eq(0) * (num_labels * num_buckets);
  if (options.multi_label) place = place + at::arange(num_labels, place.options()) * num_buckets;
  const Tensor weight = weights(options, sample_weight, predictions);
  return at::zeros({2 * num_labels * num_buckets}, weight.options())
      .index_add_(0, place.reshape({-1}), weight.reshape({-1}))
      .view({2, num_labels, num_buckets});
}

Confusion confusion(const Thresholds& thresholds, const Tensor& state) {
  // Sums from both ends, not differences from a total: what is nothing stays exactly zero.
  const Tensor at_most = state.cumsum(-1).slice(-1, 0, -1);
  const Tensor above = state.flip(-1).cumsum(-1).flip(-1).slice(-1, 1);
  const Tensor positive = thresholds.as_given(above);
  const Tensor negative = thresholds.as_given(at_most);
  return {.true_positives = positive[0],
          .false_positives = positive[1],
          .true_negatives = negative[1],
          .false_negatives = negative[0]};
}

Tensor Confusion::recall() const { return divide_no_nan(true_positives, true_positives + false_negatives); }
Tensor Confusion::precision() const { return divide_no_nan(true_positives, true_positives + false_positives); }
Tensor Confusion::specificity() const { return divide_no_nan(true_negatives, true_negatives + false_positives); }

Tensor per_threshold(const Tensor& values) { return values.size(-1) == 1 ? values[0][0] : values[0]; }

}  // namespace tutti::keras::metrics
