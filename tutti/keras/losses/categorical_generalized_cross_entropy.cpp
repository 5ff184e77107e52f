#include "tutti/keras/losses/categorical_generalized_cross_entropy.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"

namespace tutti::keras::losses {

CategoricalGeneralizedCrossEntropy::CategoricalGeneralizedCrossEntropy(
    const CategoricalGeneralizedCrossEntropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const Tensor labels = class_indices(options.name, y_true, y_pred);
        check_class_indices(options.name, labels, y_pred.size(-1));
        return (1 - y_pred.gather(-1, labels.unsqueeze(-1)).squeeze(-1).pow(options.q)) / options.q;
      }) {
  if (!(options.q > 0 && options.q < 1))
    throw Error(ErrorCode::invalid_argument, str(options.name, ": q is ", options.q, "; it must lie in (0, 1)"));
  tell_made_from({"CategoricalGeneralizedCrossEntropy", options});
}

}  // namespace tutti::keras::losses
