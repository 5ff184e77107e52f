#pragma once

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
  std::string name = "categorical_crossentropy";
};
// TF: tf.keras.metrics.CategoricalCrossentropy
class CategoricalCrossentropy : public MeanMetricWrapper {
 public:
  explicit CategoricalCrossentropy(const CategoricalCrossentropyOptions& options = {});
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::string name = "sparse_categorical_crossentropy";
};
// TF: tf.keras.metrics.SparseCategoricalCrossentropy
class SparseCategoricalCrossentropy : public MeanMetricWrapper {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::metrics
