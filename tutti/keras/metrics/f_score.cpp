#include "tutti/keras/metrics/f_score.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

using losses::kEpsilon;

constexpr double kNothing = 1e-9;  // predictions as small as this are never the largest

// The rows of the state, each [classes].
enum FScoreRow : int64_t { kTruePositives, kFalsePositives, kFalseNegatives, kLabels, kNumFScoreRows };

Tensor chosen(const FBetaScoreOptions& options, const Tensor& predictions) {
  if (options.threshold) return predictions > *options.threshold;
  return (predictions >= predictions.amax(-1, /*keepdim=*/true)).logical_and(predictions.abs() > kNothing);
}

Tensor f_contribution(const FBetaScoreOptions& options, const Tensor& y_true, const Tensor& y_pred,
                      const Tensor& sample_weight) {
  if (y_true.dim() != 2 || y_true.sizes() != y_pred.sizes())
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": labels of shape ", to_string(y_true.sizes()), " do not fit predictions of shape ",
                    to_string(y_pred.sizes()), "; both must be (N, classes)"));
  const Tensor predicted = chosen(options, y_pred).to(at::kDouble);
  const Tensor labels = y_true.to(at::kDouble);
  const Tensor both = predicted * labels;
  Tensor counts = at::stack({both, predicted - both, labels - both, labels});
  if (sample_weight.defined()) counts = counts * broadcastable_weight(options.name, sample_weight, labels);
  return counts.sum(1);
}

Tensor f_result(const FBetaScoreOptions& options, const Tensor& state) {
  const Tensor of = options.average == Average::micro ? state.sum(1) : state;
  const Tensor precision = of[kTruePositives] / (of[kTruePositives] + of[kFalsePositives] + kEpsilon);
  const Tensor recall = of[kTruePositives] / (of[kTruePositives] + of[kFalseNegatives] + kEpsilon);
  const double squared = options.beta * options.beta;
  const Tensor scores = (1 + squared) * (precision * recall / (squared * precision + recall + kEpsilon));
  switch (options.average) {
    case Average::none:
    case Average::micro: return scores;
    case Average::macro: return scores.mean();
    case Average::weighted: return (scores * (of[kLabels] / (of[kLabels].sum() + kEpsilon))).sum();
  }
  return scores;
}

void check(const FBetaScoreOptions& options) {
  if (!(options.beta > 0))
    throw Error(ErrorCode::invalid_argument, str(options.name, ": beta is ", options.beta, "; it must be above 0"));
  if (options.threshold && !(*options.threshold > 0 && *options.threshold <= 1))
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": threshold is ", *options.threshold, "; it must lie in (0, 1]"));
}

}  // namespace

FBetaScore::FBetaScore(const FBetaScoreOptions& options)
    : Metric(
          options.name, {kNumFScoreRows, kUnknown},
          [options](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
            return f_contribution(options, y_true, y_pred, sample_weight);
          },
          [options](const Tensor& state) { return f_result(options, state); }, Direction::up) {
  check(options);
  tell_made_from({"FBetaScore", options});
}

F1Score::F1Score(const F1ScoreOptions& options)
    : FBetaScore({.average = options.average, .threshold = options.threshold, .name = options.name}) {
  tell_made_from({"F1Score", options});
}

}  // namespace tutti::keras::metrics
