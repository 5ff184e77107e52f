#pragma once

#include <string>

#include "tutti/keras/metrics/mean.h"

namespace tutti::keras::metrics {

struct PearsonCorrelationOptions {
  int64_t axis = -1;  // the one along which numbers are correlated
  std::string name = "pearson_correlation";
};

// The correlation of each sample's labels and predictions, -1 to 1, averaged over the samples; not-a-number where
// either are all equal. Shapes: both [N, ..., features]. TF: tf.keras.metrics.PearsonCorrelation
class PearsonCorrelation : public MeanMetricWrapper {
 public:
  explicit PearsonCorrelation(const PearsonCorrelationOptions& options = {});
};

struct ConcordanceCorrelationOptions {
  int64_t axis = -1;
  std::string name = "concordance_correlation";
};

// 2 cov(y, p) / (var(y) + var(p) + (mean(y) - mean(p))^2 + 1e-7): correlation that also counts differences of mean and
// scale. Shapes: both [N, ..., features]. TF: tf.keras.metrics.ConcordanceCorrelation. Source: Lin, 1989
class ConcordanceCorrelation : public MeanMetricWrapper {
 public:
  explicit ConcordanceCorrelation(const ConcordanceCorrelationOptions& options = {});
};

}  // namespace tutti::keras::metrics
