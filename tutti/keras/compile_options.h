#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/keras/losses/loss.h"
#include "tutti/keras/metrics/metric.h"
#include "tutti/keras/optimizers/optimizer.h"
#include "tutti/keras/per_output.h"

namespace tutti::keras {

// The metrics of a model's one output, or of several by their names.
class OutputMetrics {
 public:
  OutputMetrics() = default;
  OutputMetrics(std::initializer_list<metrics::Metric> metrics) : only_(metrics) {}
  OutputMetrics(std::vector<metrics::Metric> metrics) : only_(std::move(metrics)) {}
  OutputMetrics(std::initializer_list<std::pair<const std::string, std::vector<metrics::Metric>>> by_name)
      : by_name_(by_name) {}
  static OutputMetrics of_names(std::map<std::string, std::vector<metrics::Metric>> by_name) {
    OutputMetrics all;
    all.by_name_ = std::move(by_name);
    return all;
  }

  const std::vector<metrics::Metric>& only() const { return only_; }
  const std::map<std::string, std::vector<metrics::Metric>>& by_name() const { return by_name_; }

 private:
  std::vector<metrics::Metric> only_;
  std::map<std::string, std::vector<metrics::Metric>> by_name_;
};

// TF: the arguments of tf.keras.Model.compile
struct CompileOptions {
  std::optional<optimizers::Optimizer> optimizer = {};
  PerOutput<losses::Loss> loss = {};
  PerOutput<double> loss_weights = {};  // of the outputs' losses in their sum; 1 unless given
  OutputMetrics metrics = {};           // never weighted; masked steps do not count
  OutputMetrics weighted_metrics = {};  // by the sample weights
  int64_t steps_per_execution = 1;      // steps between two looks at the progress and the callbacks
  // False: the steps of fit, evaluate and predict are recorded when they first run, and then replayed with the same
  // bits; one that cannot be recorded runs as it is, with a warning. True: C++ runs in each step, to debug it. See
  // docs/keras.md.
  bool run_eagerly = false;
};

}  // namespace tutti::keras
