#include "tutti/keras/losses/binary_crossentropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/losses/label_smoothing.h"

namespace tutti::keras::losses {
namespace {

Tensor from_label_probabilities(const Tensor& labels, const Tensor& probabilities) {
  const Tensor p = probabilities.clamp(kEpsilon, 1 - kEpsilon);
  return -(labels * p.log() + (1 - labels) * (1 - p).log());
}

Tensor focal(const BinaryFocalCrossentropyOptions& options, const Tensor& labels, const Tensor& predictions) {
  const Tensor p = options.from_logits ? predictions.sigmoid() : predictions;
  const Tensor of_label = labels * p + (1 - labels) * (1 - p);
  const Tensor values = (1 - of_label).pow(options.gamma) * from_label_probabilities(labels, p);
  if (!options.apply_class_balancing) return values;
  return (labels * options.alpha + (1 - labels) * (1 - options.alpha)) * values;
}

}  // namespace

BinaryCrossentropy::BinaryCrossentropy(const BinaryCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [raw_labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        const Tensor labels = smoothed(raw_labels, options.label_smoothing, /*classes=*/2);
        const Tensor values =
            options.from_logits ? at::binary_cross_entropy_with_logits(predictions, labels, {}, {}, at::Reduction::None)
                                : from_label_probabilities(labels, predictions);
        return values.mean(checked_axis_of_sample(options.name, options.axis, values.dim()));
      }) {
  checked_label_smoothing(options.name, options.label_smoothing);
  tell_made_from({"BinaryCrossentropy", options});
}

BinaryFocalCrossentropy::BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [raw_labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        const Tensor labels = smoothed(raw_labels, options.label_smoothing, /*classes=*/2);
        return focal(options, labels, predictions)
            .mean(checked_axis_of_sample(options.name, options.axis, predictions.dim()));
      }) {
  checked_label_smoothing(options.name, options.label_smoothing);
  tell_made_from({"BinaryFocalCrossentropy", options});
}

}  // namespace tutti::keras::losses
