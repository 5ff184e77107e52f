#pragma once

#include <functional>
#include <string>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

struct MetricOptions {
  std::string name = {};  // empty: Keras's default name

  std::string name_or(const char* default_name) const { return name.empty() ? default_name : name; }
};

// The weighted mean of values. Values [N, ...] are first averaged per sample. TF: tf.keras.metrics.Mean
class Mean : public Metric {
 public:
  explicit Mean(const MetricOptions& options = {});

  // Shapes: values [N, ...] or a scalar; sample_weight, if defined, [N] or as the values' leading extents.
  void update_state(const Tensor& values, const Tensor& sample_weight = {}) const;
};

// The weighted sum of values. TF: tf.keras.metrics.Sum
class Sum : public Metric {
 public:
  explicit Sum(const MetricOptions& options = {});

  void update_state(const Tensor& values, const Tensor& sample_weight = {}) const;
};

// The weighted mean of a function of labels and predictions. TF: tf.keras.metrics.MeanMetricWrapper
class MeanMetricWrapper : public Metric {
 public:
  using Function = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;

  MeanMetricWrapper(std::string name, Function function, Direction direction = Direction::unknown);

 protected:
  // For a mean whose weights or result are special.
  MeanMetricWrapper(std::string name, Contribution contribution, Result result, Direction direction);
};

}  // namespace tutti::keras::metrics
