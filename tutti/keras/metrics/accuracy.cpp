#include "tutti/keras/metrics/accuracy.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"

namespace tutti::keras::metrics {
namespace {

double checked_threshold(const BinaryAccuracyOptions& options) {
  if (options.threshold > 0 && options.threshold < 1) return options.threshold;
  throw Error(ErrorCode::invalid_argument,
              str(options.name, ": threshold is ", options.threshold, "; it must lie in (0, 1)"));
}

}  // namespace

Accuracy::Accuracy(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("accuracy"), [](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair("accuracy", y_true, y_pred);
        return labels == predictions;
      }) {}

BinaryAccuracy::BinaryAccuracy(const BinaryAccuracyOptions& options)
    : MeanMetricWrapper(options.name, [name = options.name, threshold = checked_threshold(options)](
                                          const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        return labels == (predictions > threshold).to(labels.scalar_type());
      }) {}

CategoricalAccuracy::CategoricalAccuracy(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("categorical_accuracy"), [](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair("categorical_accuracy", y_true, y_pred);
        return labels.argmax(-1) == predictions.argmax(-1);
      }) {}

SparseCategoricalAccuracy::SparseCategoricalAccuracy(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("sparse_categorical_accuracy"), [](const Tensor& y_true, const Tensor& y_pred) {
        return class_indices("sparse_categorical_accuracy", y_true, y_pred) == y_pred.argmax(-1);
      }) {}

}  // namespace tutti::keras::metrics
