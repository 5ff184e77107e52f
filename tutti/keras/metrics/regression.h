#pragma once

#include <string>

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

class MeanAbsolutePercentageError : public MeanMetricWrapper {
 public:
  explicit MeanAbsolutePercentageError(const MetricOptions& options = {});
};

class MeanSquaredLogarithmicError : public MeanMetricWrapper {
 public:
  explicit MeanSquaredLogarithmicError(const MetricOptions& options = {});
};

class LogCoshError : public MeanMetricWrapper {
 public:
  explicit LogCoshError(const MetricOptions& options = {});
};

// The square root of the mean squared error. TF: tf.keras.metrics.RootMeanSquaredError
class RootMeanSquaredError : public MeanMetricWrapper {
 public:
  explicit RootMeanSquaredError(const MetricOptions& options = {});
};

struct CosineSimilarityOptions {
  int64_t axis = -1;  // the one along which vectors lie
  std::string name = "cosine_similarity";
};

// The cosine of the angle between labels and predictions: 1 is the same direction, as against the loss's -1.
// TF: tf.keras.metrics.CosineSimilarity
class CosineSimilarity : public MeanMetricWrapper {
 public:
  explicit CosineSimilarity(const CosineSimilarityOptions& options = {});
};

}  // namespace tutti::keras::metrics
