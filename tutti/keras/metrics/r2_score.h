#pragma once

#include <string>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

// How the scores of several outputs become one.
enum class ClassAggregation {
  none,  // a score for each output
  uniform_average,
  variance_weighted_average,
};

struct R2ScoreOptions {
  ClassAggregation class_aggregation = ClassAggregation::uniform_average;
  int64_t num_regressors = 0;  // above 0: the adjusted score, for a model of so many independent variables
  std::string name = "r2_score";
};

// The part of the labels' variance that the predictions explain; 1 is best. An output whose labels are all equal scores
// 0, or not-a-number if it was met exactly. Shapes: both [N, outputs]; weights [N]. The adjusted score is the plain one
// while there are too few samples for it, with a warning. TF: tf.keras.metrics.R2Score
class R2Score : public Metric {
 public:
  explicit R2Score(const R2ScoreOptions& options = {});
};

}  // namespace tutti::keras::metrics
