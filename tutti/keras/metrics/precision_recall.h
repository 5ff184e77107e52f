#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

struct PrecisionOptions {
  std::vector<double> thresholds =
      {};                             // predictions above are positive, each in [0, 1]; none: 0.5, or all of the top_k
  std::optional<int64_t> top_k = {};  // only the largest so many of the last axis are positive
  std::optional<int64_t> class_id = {};  // only this place of the last axis counts
  std::string name = "precision";
};

// TP / (TP + FP): how many of the predictions are right; for each threshold if there are several. Labels that are not 0
// are positive. Shapes: both [N, ...]; weights [N] or [N, ...]. TF: tf.keras.metrics.Precision
class Precision : public Metric {
 public:
  explicit Precision(const PrecisionOptions& options = {});
};

struct RecallOptions {
  std::vector<double> thresholds = {};
  std::optional<int64_t> top_k = {};
  std::optional<int64_t> class_id = {};
  std::string name = "recall";
};

// TP / (TP + FN): how many of the labels are met. TF: tf.keras.metrics.Recall
class Recall : public Metric {
 public:
  explicit Recall(const RecallOptions& options = {});
};

}  // namespace tutti::keras::metrics
