#include "tutti/keras/losses/binary_crossentropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/crossentropy_internal.h"

namespace tutti::keras::losses {
namespace {

Tensor from_probabilities(const Tensor& labels, const Tensor& probabilities) {
  const Tensor p = probabilities.clamp(kProbabilityEpsilon, 1 - kProbabilityEpsilon);
  return -(labels * p.log() + (1 - labels) * (1 - p).log());
}

}  // namespace

BinaryCrossentropy::BinaryCrossentropy(const BinaryCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        auto [labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        if (options.label_smoothing != 0) labels = labels * (1 - options.label_smoothing) + options.label_smoothing / 2;
        const Tensor values =
            options.from_logits ? at::binary_cross_entropy_with_logits(predictions, labels, {}, {}, at::Reduction::None)
                                : from_probabilities(labels, predictions);
        return values.mean(-1);
      }) {
  check_label_smoothing(options.name, options.label_smoothing);
}

}  // namespace tutti::keras::losses
