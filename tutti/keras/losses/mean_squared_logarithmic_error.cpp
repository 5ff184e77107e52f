#include "tutti/keras/losses/mean_squared_logarithmic_error.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {

MeanSquaredLogarithmicError::MeanSquaredLogarithmicError(const MeanSquaredLogarithmicErrorOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        return (predictions.clamp_min(kEpsilon).log1p() - labels.clamp_min(kEpsilon).log1p()).square().mean(-1);
      }) {
  tell_made_from({"MeanSquaredLogarithmicError", options});
}

}  // namespace tutti::keras::losses
