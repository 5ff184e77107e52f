#include "tutti/keras/metrics/r2_score.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

// The rows of the state, each [outputs].
enum R2Row : int64_t { kSum, kSquaredSum, kResidual, kCount, kNumSamples, kNumR2Rows };

Tensor r2_contribution(const std::string& name, const Tensor& y_true, const Tensor& y_pred,
                       const Tensor& sample_weight) {
  const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred.to(at::kDouble));
  if (predictions.dim() != 2)
    throw Error(ErrorCode::invalid_argument,
                str(name, ": predictions have shape ", to_string(predictions.sizes()), "; it must be (N, outputs)"));
  const Tensor weight =
      (sample_weight.defined() ? broadcastable_weight(name, sample_weight, predictions).to(at::kDouble)
                               : at::ones({1, 1}, predictions.options()))
          .expand_as(predictions);
  const Tensor weighted = labels * weight;
  const Tensor num_samples = weight.ne(0).any(-1).sum().to(at::kDouble);
  return at::stack({weighted.sum(0), (labels * weighted).sum(0), ((labels - predictions).square() * weight).sum(0),
                    weight.sum(0), num_samples.expand({predictions.size(1)})});
}

// Of a score from n samples. Warns and gives the score as it is if they are too few.
Tensor adjusted(const R2ScoreOptions& options, const Tensor& score, double num_samples) {
  const double free = num_samples - static_cast<double>(options.num_regressors) - 1;
  if (options.num_regressors == 0) return score;
  if (free > 0) return 1 - (1 - score) * (num_samples - 1) / free;
  warn(str(options.name, ": ", num_samples, " samples are too few for a score adjusted to ", options.num_regressors,
           " independent variables; this is the plain score"));
  return score;
}

Tensor r2_result(const R2ScoreOptions& options, const Tensor& state) {
  const Tensor mean = state[kSum] / state[kCount];
  const Tensor total = state[kSquaredSum] - state[kSum] * mean;
  const Tensor raw = 1 - state[kResidual] / total;
  const Tensor scores = raw.masked_fill(raw.isinf(), 0);
  const double num_samples = state[kNumSamples][0].item<double>();
  switch (options.class_aggregation) {
    case ClassAggregation::none: return adjusted(options, scores, num_samples);
    case ClassAggregation::uniform_average: return adjusted(options, scores.mean(), num_samples);
    case ClassAggregation::variance_weighted_average:
      return adjusted(options, (total * scores).sum() / total.sum(), num_samples);
  }
  return scores;
}

}  // namespace

R2Score::R2Score(const R2ScoreOptions& options)
    : Metric(
          options.name, {kNumR2Rows, kUnknown},
          [name = options.name](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
            return r2_contribution(name, y_true, y_pred, sample_weight);
          },
          [options](const Tensor& state) { return r2_result(options, state); }, Direction::up) {
  if (options.num_regressors < 0)
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": num_regressors is ", options.num_regressors, "; it must be at least 0"));
  tell_made_from({"R2Score", options});
}

}  // namespace tutti::keras::metrics
