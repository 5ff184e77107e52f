#include "tutti/keras/metrics/crossentropy.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/kl_divergence.h"
#include "tutti/keras/losses/poisson.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/mean_internal.h"

namespace tutti::keras::metrics {
namespace {

Metric::Contribution sparse_contribution(const SparseCategoricalCrossentropyOptions& options) {
  const losses::SparseCategoricalCrossentropy values({.from_logits = options.from_logits,
                                                      .ignore_class = options.ignore_class,
                                                      .reduction = Reduction::none,
                                                      .name = options.name});
  return [options, values](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
    Tensor weight = sample_weight;
    if (weight.defined() && options.ignore_class)
      weight =
          masked_weight(options.name, weight, class_indices(options.name, y_true, y_pred) != *options.ignore_class);
    return mean_contribution(options.name, values(y_true, y_pred), weight);
  };
}

}  // namespace

BinaryCrossentropy::BinaryCrossentropy(const BinaryCrossentropyOptions& options)
    : MeanMetricWrapper(options.name,
                        losses::BinaryCrossentropy({.from_logits = options.from_logits,
                                                    .label_smoothing = options.label_smoothing,
                                                    .reduction = Reduction::none,
                                                    .name = options.name}),
                        Direction::down) {
  tell_made_from({"BinaryCrossentropy", options});
}

CategoricalCrossentropy::CategoricalCrossentropy(const CategoricalCrossentropyOptions& options)
    : MeanMetricWrapper(options.name,
                        losses::CategoricalCrossentropy({.from_logits = options.from_logits,
                                                         .label_smoothing = options.label_smoothing,
                                                         .axis = options.axis,
                                                         .reduction = Reduction::none,
                                                         .name = options.name}),
                        Direction::down) {
  tell_made_from({"CategoricalCrossentropy", options});
}

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options)
    : MeanMetricWrapper(options.name, sparse_contribution(options), mean_result, Direction::down) {
  tell_made_from({"SparseCategoricalCrossentropy", options});
}

KLDivergence::KLDivergence(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("kl_divergence"), losses::KLDivergence({.reduction = Reduction::none}),
                        Direction::down) {
  tell_made_from({"KLDivergence", options});
}

Poisson::Poisson(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("poisson"), losses::Poisson({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"Poisson", options});
}

}  // namespace tutti::keras::metrics
