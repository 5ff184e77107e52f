#pragma once

#include <optional>
#include <string>

#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {

// The losses of the same names as metrics: means over the samples, never reduced otherwise.
struct BinaryCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  std::string name = "binary_crossentropy";
};
// TF: tf.keras.metrics.BinaryCrossentropy
class BinaryCrossentropy : public MeanMetricWrapper {
 public:
  explicit BinaryCrossentropy(const BinaryCrossentropyOptions& options = {});
};

struct CategoricalCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  std::string name = "categorical_crossentropy";
};
// TF: tf.keras.metrics.CategoricalCrossentropy
class CategoricalCrossentropy : public MeanMetricWrapper {
 public:
  explicit CategoricalCrossentropy(const CategoricalCrossentropyOptions& options = {});
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class = {};  // its values are zero; they have no weight if there are weights
  std::string name = "sparse_categorical_crossentropy";
};
// TF: tf.keras.metrics.SparseCategoricalCrossentropy
class SparseCategoricalCrossentropy : public MeanMetricWrapper {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options = {});
};

// TF: tf.keras.metrics.KLDivergence
class KLDivergence : public MeanMetricWrapper {
 public:
  explicit KLDivergence(const MetricOptions& options = {});
};

// TF: tf.keras.metrics.Poisson
class Poisson : public MeanMetricWrapper {
 public:
  explicit Poisson(const MetricOptions& options = {});
};

}  // namespace tutti::keras::metrics
