#pragma once

#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {

// How often labels and predictions are equal. Shapes: both [N, ...]. TF: tf.keras.metrics.Accuracy
class Accuracy : public MeanMetricWrapper {
 public:
  explicit Accuracy(const MetricOptions& options = {});
};

struct BinaryAccuracyOptions {
  double threshold = 0.5;  // a prediction above it means 1; in (0, 1)
  std::string name = "binary_accuracy";
};

// How often a prediction lies on the label's side of the threshold. Shapes: both [N, ...].
// TF: tf.keras.metrics.BinaryAccuracy
class BinaryAccuracy : public MeanMetricWrapper {
 public:
  explicit BinaryAccuracy(const BinaryAccuracyOptions& options = {});
};

// How often the largest prediction is the largest label. Shapes: both [N, ..., classes].
// TF: tf.keras.metrics.CategoricalAccuracy
class CategoricalAccuracy : public MeanMetricWrapper {
 public:
  explicit CategoricalAccuracy(const MetricOptions& options = {});
};

// How often the largest prediction is the label. Shapes: labels, whole numbers, [N, ...] or [N, ..., 1]; predictions
// [N, ..., classes]. TF: tf.keras.metrics.SparseCategoricalAccuracy
class SparseCategoricalAccuracy : public MeanMetricWrapper {
 public:
  explicit SparseCategoricalAccuracy(const MetricOptions& options = {});
};

struct TopKCategoricalAccuracyOptions {
  int64_t k = 5;
  std::string name = "top_k_categorical_accuracy";
};

// How often fewer than k predictions are greater than that of the largest label. Shapes: both [N, ..., classes].
// TF: tf.keras.metrics.TopKCategoricalAccuracy
class TopKCategoricalAccuracy : public MeanMetricWrapper {
 public:
  explicit TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options = {});
};

struct SparseTopKCategoricalAccuracyOptions {
  int64_t k = 5;
  bool from_sorted_ids = false;  // predictions are class numbers, the best first
  std::string name = "sparse_top_k_categorical_accuracy";
};

// The same for labels that are whole numbers, [N, ...] or [N, ..., 1].
// TF: tf.keras.metrics.SparseTopKCategoricalAccuracy
class SparseTopKCategoricalAccuracy : public MeanMetricWrapper {
 public:
  explicit SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options = {});
};

}  // namespace tutti::keras::metrics
