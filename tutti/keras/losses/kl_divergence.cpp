#include "tutti/keras/losses/kl_divergence.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {

KLDivergence::KLDivergence(const KLDivergenceOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        const Tensor y = labels.clamp(kEpsilon, 1);
        return (y * (y / predictions.clamp(kEpsilon, 1)).log()).sum(-1);
      }) {
  tell_made_from({"KLDivergence", options});
}

}  // namespace tutti::keras::losses
