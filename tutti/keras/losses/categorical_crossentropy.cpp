#include "tutti/keras/losses/categorical_crossentropy.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/crossentropy_internal.h"

namespace tutti::keras::losses {
namespace {

Tensor log_probabilities(const Tensor& probabilities) {
  return (probabilities / probabilities.sum(-1, /*keepdim=*/true))
      .clamp(kProbabilityEpsilon, 1 - kProbabilityEpsilon)
      .log();
}

}  // namespace

CategoricalCrossentropy::CategoricalCrossentropy(const CategoricalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        auto [labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        if (options.label_smoothing != 0)
          labels =
              labels * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(labels.size(-1));
        return -(labels * (options.from_logits ? predictions.log_softmax(-1) : log_probabilities(predictions))).sum(-1);
      }) {
  check_label_smoothing(options.name, options.label_smoothing);
}

}  // namespace tutti::keras::losses
