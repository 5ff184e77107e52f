#include "tutti/keras/losses/mean_absolute_error.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"

namespace tutti::keras::losses {

MeanAbsoluteError::MeanAbsoluteError(const MeanAbsoluteErrorOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        return (labels - predictions).abs().mean(-1);
      }) {
  tell_made_from({"MeanAbsoluteError", options});
}

}  // namespace tutti::keras::losses
