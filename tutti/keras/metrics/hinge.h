#pragma once

#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {

// The losses of the same names as metrics: means over the samples. Whether labels are 0 and 1 is asked of each update.
// TF: tf.keras.metrics.Hinge, …
class Hinge : public MeanMetricWrapper {
 public:
  explicit Hinge(const MetricOptions& options = {});
};

class SquaredHinge : public MeanMetricWrapper {
 public:
  explicit SquaredHinge(const MetricOptions& options = {});
};

class CategoricalHinge : public MeanMetricWrapper {
 public:
  explicit CategoricalHinge(const MetricOptions& options = {});
};

}  // namespace tutti::keras::metrics
