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

int64_t checked_k(const std::string& name, int64_t k) {
  if (k > 0) return k;
  throw Error(ErrorCode::invalid_argument, str(name, ": k is ", k, "; it must be above 0"));
}

// Equal predictions share a place; with one that is not finite nothing is in the top. TF: tf.math.in_top_k
Tensor in_top_k(const Tensor& labels, const Tensor& predictions, int64_t k) {
  const Tensor of_label = predictions.gather(-1, labels.unsqueeze(-1));
  return (predictions > of_label).sum(-1).lt(k).logical_and(predictions.isfinite().all(-1));
}

}  // namespace

Accuracy::Accuracy(const MetricOptions& options)
    : MeanMetricWrapper(
          options.name_or("accuracy"),
          [](const Tensor& y_true, const Tensor& y_pred) {
            const auto [labels, predictions] = elementwise_pair("accuracy", y_true, y_pred);
            return labels == predictions;
          },
          Direction::up) {
  tell_made_from({"Accuracy", options});
}

BinaryAccuracy::BinaryAccuracy(const BinaryAccuracyOptions& options)
    : MeanMetricWrapper(
          options.name,
          [name = options.name, threshold = checked_threshold(options)](const Tensor& y_true, const Tensor& y_pred) {
            const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
            return labels == (predictions > threshold).to(labels.scalar_type());
          },
          Direction::up) {
  tell_made_from({"BinaryAccuracy", options});
}

CategoricalAccuracy::CategoricalAccuracy(const MetricOptions& options)
    : MeanMetricWrapper(
          options.name_or("categorical_accuracy"),
          [](const Tensor& y_true, const Tensor& y_pred) {
            const auto [labels, predictions] = elementwise_pair("categorical_accuracy", y_true, y_pred);
            return labels.argmax(-1) == predictions.argmax(-1);
          },
          Direction::up) {
  tell_made_from({"CategoricalAccuracy", options});
}

SparseCategoricalAccuracy::SparseCategoricalAccuracy(const MetricOptions& options)
    : MeanMetricWrapper(
          options.name_or("sparse_categorical_accuracy"),
          [](const Tensor& y_true, const Tensor& y_pred) {
            return class_indices("sparse_categorical_accuracy", y_true, y_pred) == y_pred.argmax(-1);
          },
          Direction::up) {
  tell_made_from({"SparseCategoricalAccuracy", options});
}

TopKCategoricalAccuracy::TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options)
    : MeanMetricWrapper(
          options.name,
          [name = options.name, k = checked_k(options.name, options.k)](const Tensor& y_true, const Tensor& y_pred) {
            const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
            return in_top_k(labels.argmax(-1), predictions, k);
          },
          Direction::up) {
  tell_made_from({"TopKCategoricalAccuracy", options});
}

SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options)
    : MeanMetricWrapper(
          options.name,
          [options, k = checked_k(options.name, options.k)](const Tensor& y_true, const Tensor& y_pred) {
            const Tensor labels = class_indices(options.name, y_true, y_pred);
            if (options.from_sorted_ids) return (y_pred.slice(-1, 0, k) == labels.unsqueeze(-1)).any(-1);
            check_class_indices(options.name, labels, y_pred.size(-1));
            return in_top_k(labels, y_pred, k);
          },
          Direction::up) {
  tell_made_from({"SparseTopKCategoricalAccuracy", options});
}

}  // namespace tutti::keras::metrics
