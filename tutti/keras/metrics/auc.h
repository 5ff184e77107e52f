#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

// roc: true positive rate over false positive rate. pr: precision over recall. pr_gain: the same as gains over a
// prediction of all positives (Flach and Kull, 2015).
enum class AUCCurve { roc, pr, pr_gain };

// The height of the curve between two thresholds: linear between them (of a pr curve: of the counts, as Davis and
// Goadrich, 2006), or the greater or smaller of the two.
enum class AUCSummationMethod { interpolation, majoring, minoring };

struct AUCOptions {
  int64_t num_thresholds = 200;  // even in [0, 1]
  AUCCurve curve = AUCCurve::roc;
  AUCSummationMethod summation_method = AUCSummationMethod::interpolation;
  std::vector<double> thresholds = {};     // used instead, each in [0, 1]; two beyond 0 and 1 are added
  bool multi_label = false;                // an area for each label of predictions [N, labels], then their mean
  std::optional<int64_t> num_labels = {};  // with multi_label: what the predictions must have
  std::vector<double> label_weights = {};  // of the labels in that mean, or else in the counts
  bool from_logits = false;                // predictions go through a sigmoid first
  std::string name = "auc";
};

// The area under a curve, by a Riemann sum over thresholds. Labels that are not 0 are positive. Shapes: both alike;
// weights [N] or [N, ...]. TF: tf.keras.metrics.AUC
class AUC : public Metric {
 public:
  explicit AUC(const AUCOptions& options = {});
};

}  // namespace tutti::keras::metrics
