#pragma once

#include <optional>
#include <string>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

// The best value of one rate over num_thresholds thresholds, even in [0, 1], among those where another rate is at least
// what is asked; 0 if there are none. Rates asked for lie in [0, 1]. Shapes: both alike; weights [N] or [N, ...].
struct SensitivityAtSpecificityOptions {
  double specificity = 0.5;
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};  // only this place of the last axis counts
  std::string name = "sensitivity_at_specificity";
};
// TF: tf.keras.metrics.SensitivityAtSpecificity
class SensitivityAtSpecificity : public Metric {
 public:
  explicit SensitivityAtSpecificity(const SensitivityAtSpecificityOptions& options);
};

struct SpecificityAtSensitivityOptions {
  double sensitivity = 0.5;
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = "specificity_at_sensitivity";
};
// TF: tf.keras.metrics.SpecificityAtSensitivity
class SpecificityAtSensitivity : public Metric {
 public:
  explicit SpecificityAtSensitivity(const SpecificityAtSensitivityOptions& options);
};

struct PrecisionAtRecallOptions {
  double recall = 0.5;
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = "precision_at_recall";
};
// TF: tf.keras.metrics.PrecisionAtRecall
class PrecisionAtRecall : public Metric {
 public:
  explicit PrecisionAtRecall(const PrecisionAtRecallOptions& options);
};

struct RecallAtPrecisionOptions {
  double precision = 0.5;
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = "recall_at_precision";
};
// TF: tf.keras.metrics.RecallAtPrecision
class RecallAtPrecision : public Metric {
 public:
  explicit RecallAtPrecision(const RecallAtPrecisionOptions& options);
};

}  // namespace tutti::keras::metrics
