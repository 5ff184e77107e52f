#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/where.h>

#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {
namespace {

constexpr int64_t kIgnoreNothing = std::numeric_limits<int64_t>::min();  // LibTorch's default leaves out label -100

// -log of what a softmax of the logarithms would give, without taking more than two of them for each label.
Tensor from_class_probabilities(const Tensor& labels, const Tensor& probabilities) {
  const Tensor clipped = probabilities.clamp(kEpsilon, 1 - kEpsilon);
  const Tensor of_label = -at::nll_loss(clipped, labels, {}, at::Reduction::None, kIgnoreNothing);
  return clipped.sum(-1).log() - of_label.log();
}

// Of labels [N] and predictions [N, classes]. LibTorch finds labels that are out of range on the way.
Tensor crossentropy(const SparseCategoricalCrossentropyOptions& options, const Tensor& labels,
                    const Tensor& predictions) {
  try {
    return options.from_logits ? at::cross_entropy_loss(predictions, labels, {}, at::Reduction::None, kIgnoreNothing)
                               : from_class_probabilities(labels, predictions);
  } catch (const c10::IndexError&) {
    check_class_indices(options.name, labels, predictions.size(-1));
    throw;
  }
}

Values values(const SparseCategoricalCrossentropyOptions& options, const Tensor& y_true, const Tensor& y_pred) {
  const Tensor labels = class_indices(options.name, y_true, y_pred);
  const Tensor flat = labels.reshape({-1});
  const Tensor predictions = y_pred.reshape({labels.numel(), y_pred.size(-1)});
  if (!options.ignore_class) return {crossentropy(options, flat, predictions).view_as(labels)};

  const Tensor counts = flat != *options.ignore_class;
  const Tensor all =
      crossentropy(options, at::where(counts, flat, 0), at::where(counts.unsqueeze(-1), predictions, 0.0));
  return {.values = at::where(counts, all, 0.0).view_as(labels), .mask = counts.view_as(labels)};
}

}  // namespace

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred, const Shards&) {
        return values(options, y_true, y_pred);
      }) {
  tell_made_from({"SparseCategoricalCrossentropy", options});
}

}  // namespace tutti::keras::losses
