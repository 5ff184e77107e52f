#pragma once

#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {

// The losses of the same names as metrics: means over the samples. TF: tf.keras.metrics.MeanSquaredError, …
class MeanSquaredError : public MeanMetricWrapper {
 public:
  explicit MeanSquaredError(const MetricOptions& options = {});
};

class MeanAbsoluteError : public MeanMetricWrapper {
 public:
  explicit MeanAbsoluteError(const MetricOptions& options = {});
};

}  // namespace tutti::keras::metrics
