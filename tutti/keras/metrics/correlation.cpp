#include "tutti/keras/metrics/correlation.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::metrics {
namespace {

// The moments along an axis.
struct Moments {
  Tensor mean_difference;  // of labels and predictions
  Tensor label_variance;
  Tensor prediction_variance;
  Tensor covariance;
};

template <class Options>
Moments moments(const Options& options, const Tensor& y_true, const Tensor& y_pred) {
  const auto [labels, predictions] = elementwise_pair(options.name, y_true, at_least_float(y_pred));
  const int64_t axis = checked_axis_of_sample(options.name, options.axis, predictions.dim());
  const Tensor label_mean = labels.mean(axis, /*keepdim=*/true);
  const Tensor prediction_mean = predictions.mean(axis, /*keepdim=*/true);
  const Tensor label_deviation = labels - label_mean;
  const Tensor prediction_deviation = predictions - prediction_mean;
  return {.mean_difference = (label_mean - prediction_mean).squeeze(axis),
          .label_variance = label_deviation.square().mean(axis),
          .prediction_variance = prediction_deviation.square().mean(axis),
          .covariance = (label_deviation * prediction_deviation).mean(axis)};
}

}  // namespace

PearsonCorrelation::PearsonCorrelation(const PearsonCorrelationOptions& options)
    : MeanMetricWrapper(
          options.name,
          [options](const Tensor& y_true, const Tensor& y_pred) {
            const Moments of = moments(options, y_true, y_pred);
            return of.covariance / (of.label_variance.sqrt() * of.prediction_variance.sqrt());
          },
          Direction::up) {
  tell_made_from({"PearsonCorrelation", options});
}

ConcordanceCorrelation::ConcordanceCorrelation(const ConcordanceCorrelationOptions& options)
    : MeanMetricWrapper(
          options.name,
          [options](const Tensor& y_true, const Tensor& y_pred) {
            const Moments of = moments(options, y_true, y_pred);
            return 2 * of.covariance /
                   (of.label_variance + of.prediction_variance + of.mean_difference.square() + losses::kEpsilon);
          },
          Direction::up) {
  tell_made_from({"ConcordanceCorrelation", options});
}

}  // namespace tutti::keras::metrics
