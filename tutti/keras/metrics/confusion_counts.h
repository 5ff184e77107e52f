#pragma once

#include <string>
#include <vector>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

struct ConfusionCountOptions {
  std::vector<double> thresholds = {0.5};  // predictions above are positive, each in [0, 1]
  std::string name = {};                   // empty: Keras's default name
};

// How many labels (anything but 0 is positive) are met or missed by predictions, or the sum of their weights; for each
// threshold if there are several. Shapes: both alike; weights [N] or [N, ...].
// TF: tf.keras.metrics.TruePositives, …
class TruePositives : public Metric {
 public:
  explicit TruePositives(const ConfusionCountOptions& options = {});
};

class TrueNegatives : public Metric {
 public:
  explicit TrueNegatives(const ConfusionCountOptions& options = {});
};

class FalsePositives : public Metric {
 public:
  explicit FalsePositives(const ConfusionCountOptions& options = {});
};

class FalseNegatives : public Metric {
 public:
  explicit FalseNegatives(const ConfusionCountOptions& options = {});
};

}  // namespace tutti::keras::metrics
