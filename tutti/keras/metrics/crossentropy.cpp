#include "tutti/keras/metrics/crossentropy.h"

#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

namespace tutti::keras::metrics {

BinaryCrossentropy::BinaryCrossentropy(const BinaryCrossentropyOptions& options)
    : MeanMetricWrapper(options.name, losses::BinaryCrossentropy({.from_logits = options.from_logits,
                                                                  .label_smoothing = options.label_smoothing,
                                                                  .reduction = Reduction::none})) {}

CategoricalCrossentropy::CategoricalCrossentropy(const CategoricalCrossentropyOptions& options)
    : MeanMetricWrapper(options.name, losses::CategoricalCrossentropy({.from_logits = options.from_logits,
                                                                       .label_smoothing = options.label_smoothing,
                                                                       .reduction = Reduction::none})) {}

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options)
    : MeanMetricWrapper(options.name, losses::SparseCategoricalCrossentropy(
                                          {.from_logits = options.from_logits, .reduction = Reduction::none})) {}

}  // namespace tutti::keras::metrics
