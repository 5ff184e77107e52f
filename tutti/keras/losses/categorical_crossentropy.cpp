#include "tutti/keras/losses/categorical_crossentropy.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/losses/label_smoothing.h"

namespace tutti::keras::losses {
namespace {

Tensor scaled_and_clipped(const Tensor& probabilities, int64_t axis) {
  return (probabilities / probabilities.sum(axis, /*keepdim=*/true)).clamp(kEpsilon, 1 - kEpsilon);
}

struct Classified {
  Tensor labels;
  Tensor predictions;
  int64_t axis;  // of the classes
};

template <class Options>
Classified classified(const Options& options, const Tensor& y_true, const Tensor& y_pred) {
  const auto [labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
  const int64_t axis = checked_axis_of_sample(options.name, options.axis, predictions.dim());
  return {smoothed(labels, options.label_smoothing, predictions.size(axis)), predictions, axis};
}

}  // namespace

CategoricalCrossentropy::CategoricalCrossentropy(const CategoricalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions, axis] = classified(options, y_true, y_pred);
        const Tensor log_probabilities =
            options.from_logits ? predictions.log_softmax(axis) : scaled_and_clipped(predictions, axis).log();
        return -(labels * log_probabilities).sum(axis);
      }) {
  checked_label_smoothing(options.name, options.label_smoothing);
  tell_made_from({"CategoricalCrossentropy", options});
}

CategoricalFocalCrossentropy::CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions, axis] = classified(options, y_true, y_pred);
        const Tensor p = scaled_and_clipped(options.from_logits ? predictions.softmax(axis) : predictions, axis);
        return -((1 - p).pow(options.gamma) * options.alpha * labels * p.log()).sum(axis);
      }) {
  checked_label_smoothing(options.name, options.label_smoothing);
  tell_made_from({"CategoricalFocalCrossentropy", options});
}

}  // namespace tutti::keras::losses
