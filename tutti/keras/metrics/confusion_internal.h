#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::keras::metrics {

using Tensor = at::Tensor;

// Where predictions part into negative and, above, positive ones.
class Thresholds {
 public:
  // In any order; results are in this one. Throws invalid_argument unless there is one and all lie in [0, 1].
  Thresholds(const std::string& name, const std::vector<double>& values);
  // num values from 0 to 1 at equal distances; 0.5 if num is 1. Throws invalid_argument if num is below 1.
  static Thresholds even(const std::string& name, int64_t num);
  // Makes the outer two lie beyond 0 and 1, so that all predictions are above the first and none above the last.
  Thresholds& widen();
  // One that parts what top_k kept from the rest.
  static Thresholds of_top_k();

  int64_t size() const { return static_cast<int64_t>(ascending_.size()); }

  // Of how many thresholds each prediction lies above, int64.
  Tensor num_below(const Tensor& predictions) const;

  // Of a dimension of counts per ascending threshold, the order in which they were given.
  Tensor as_given(const Tensor& per_threshold) const;

 private:
  Thresholds() = default;

  std::vector<double> ascending_;
  std::vector<int64_t> places_;  // of the given ones among the ascending; empty: the same
  bool even_ = false;            // at equal distances: then they are counted, as Keras does, by a product
  bool widened_ = false;
};

// Which of the predictions are counted, and how.
struct ConfusionOptions {
  std::string name;
  std::optional<int64_t> top_k = {};       // all but the largest of the last axis are negative
  std::optional<int64_t> class_id = {};    // only this place of the last axis
  bool multi_label = false;                // each place of the last axis by itself
  std::vector<double> label_weights = {};  // of the places of the last axis
};

// The sums of weights, [2, labels, thresholds + 1]: of positive and negative labels whose prediction lies above so many
// thresholds. The labels are one unless each is counted by itself. The state of all metrics of this kind.
Tensor confusion_contribution(const ConfusionOptions& options, const Thresholds& thresholds, const Tensor& y_true,
                              const Tensor& y_pred, const Tensor& sample_weight);

// The sums at each threshold, [labels, thresholds].
struct Confusion {
  Tensor true_positives;
  Tensor false_positives;
  Tensor true_negatives;
  Tensor false_negatives;

  Tensor recall() const;  // also: sensitivity, true positive rate
  Tensor precision() const;
  Tensor specificity() const;
};

Confusion confusion(const Thresholds& thresholds, const Tensor& state);

// What users get of [1, thresholds]: a scalar for one threshold, else a vector.
Tensor per_threshold(const Tensor& values);

}  // namespace tutti::keras::metrics
