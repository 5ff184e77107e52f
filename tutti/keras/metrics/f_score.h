#pragma once

#include <optional>
#include <string>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

// How the scores of several classes become one.
enum class Average {
  none,      // a score for each class
  micro,     // the score of all classes' counts together
  macro,     // the mean of the scores
  weighted,  // the mean of the scores, each weighted by how often its class is among the labels
};

struct FBetaScoreOptions {
  Average average = Average::none;
  double beta = 1;                       // how much more recall counts than precision
  std::optional<double> threshold = {};  // predictions above it count, in (0, 1]; none: the largest of each sample
  std::string name = "fbeta_score";
};

// (1 + beta^2) precision recall / (beta^2 precision + recall). Shapes: both [N, classes]; weights [N] or [N, classes].
// TF: tf.keras.metrics.FBetaScore
class FBetaScore : public Metric {
 public:
  explicit FBetaScore(const FBetaScoreOptions& options = {});
};

struct F1ScoreOptions {
  Average average = Average::none;
  std::optional<double> threshold = {};
  std::string name = "f1_score";
};

// The FBetaScore of beta 1: the harmonic mean of precision and recall. TF: tf.keras.metrics.F1Score
class F1Score : public FBetaScore {
 public:
  explicit F1Score(const F1ScoreOptions& options = {});
};

}  // namespace tutti::keras::metrics
