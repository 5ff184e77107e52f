#include "tutti/keras/losses/mean_absolute_percentage_error.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {

MeanAbsolutePercentageError::MeanAbsolutePercentageError(const MeanAbsolutePercentageErrorOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        return 100 * ((labels - predictions) / labels.abs().clamp_min(kEpsilon)).abs().mean(-1);
      }) {
  tell_made_from({"MeanAbsolutePercentageError", options});
}

}  // namespace tutti::keras::losses
