#include "tutti/keras/metrics/regression.h"

#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_squared_error.h"

namespace tutti::keras::metrics {

MeanSquaredError::MeanSquaredError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_squared_error"),
                        losses::MeanSquaredError({.reduction = Reduction::none})) {}

MeanAbsoluteError::MeanAbsoluteError(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("mean_absolute_error"),
                        losses::MeanAbsoluteError({.reduction = Reduction::none})) {}

}  // namespace tutti::keras::metrics
