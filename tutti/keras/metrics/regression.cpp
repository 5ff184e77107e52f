#include "tutti/keras/metrics/regression.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/cosine_similarity.h"
#include "tutti/keras/losses/log_cosh.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_absolute_percentage_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/mean_squared_logarithmic_error.h"
#include "tutti/keras/metrics/mean_internal.h"

namespace tutti::keras::metrics {

MeanSquaredError::MeanSquaredError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_squared_error"), losses::MeanSquaredError({.reduction = Reduction::none}),
                        Direction::down) {
  tell_made_from({"MeanSquaredError", options});
}

MeanAbsoluteError::MeanAbsoluteError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_absolute_error"),
                        losses::MeanAbsoluteError({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"MeanAbsoluteError", options});
}

MeanAbsolutePercentageError::MeanAbsolutePercentageError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_absolute_percentage_error"),
                        losses::MeanAbsolutePercentageError({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"MeanAbsolutePercentageError", options});
}

MeanSquaredLogarithmicError::MeanSquaredLogarithmicError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_squared_logarithmic_error"),
                        losses::MeanSquaredLogarithmicError({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"MeanSquaredLogarithmicError", options});
}

LogCoshError::LogCoshError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("logcosh"), losses::LogCosh({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"LogCoshError", options});
}

// Of the squares of all elements, so that weights may reach to the last axis, as in Keras.
RootMeanSquaredError::RootMeanSquaredError(const MetricOptions& options)
    : MeanMetricWrapper(
          options.name_or("root_mean_squared_error"),
          [name = options.name_or("root_mean_squared_error")](const Tensor& y_true, const Tensor& y_pred,
                                                              const Tensor& sample_weight) {
            const auto [labels, predictions] = elementwise_pair(name, y_true, at_least_float(y_pred));
            return mean_contribution(name, (predictions - labels).square(), sample_weight);
          },
          [](const Tensor& state) { return mean_result(state).sqrt(); }, Direction::down) {
  tell_made_from({"RootMeanSquaredError", options});
}

CosineSimilarity::CosineSimilarity(const CosineSimilarityOptions& options)
    : MeanMetricWrapper(
          options.name,
          [loss = losses::CosineSimilarity({.axis = options.axis, .reduction = Reduction::none, .name = options.name})](
              const Tensor& y_true, const Tensor& y_pred) { return -loss(y_true, y_pred); },
          Direction::up) {
  tell_made_from({"CosineSimilarity", options});
}

}  // namespace tutti::keras::metrics
