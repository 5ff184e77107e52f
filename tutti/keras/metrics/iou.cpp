#include "tutti/keras/metrics/iou.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

using Classes = std::function<Tensor(const Tensor& y_pred)>;

Classes largest_along(bool sparse, const IoUOptions& options) {
  return [sparse, name = options.name, axis = options.axis](const Tensor& x) {
    return sparse ? x.to(at::kLong) : x.argmax(checked_axis(name, axis, x.dim()));
  };
}

std::vector<int64_t> all_classes(int64_t num_classes) {
  std::vector<int64_t> ids(static_cast<size_t>(std::max<int64_t>(num_classes, 0)));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// What a prediction adds to the counts, of its own dtype.
class Weights {
 public:
  explicit Weights(const IoUOptions& options) : name_(options.name), dtype_(options.dtype) {}

  Tensor operator()(const Tensor& sample_weight, const Tensor& labels) const {
    if (!sample_weight.defined()) return at::ones({1}, labels.options().dtype(at::kDouble)).expand({labels.numel()});
    if (at::isIntegralType(dtype_, /*includeBool=*/true) && sample_weight.is_floating_point() &&
        !warned_->exchange(true))
      warn(str(name_, ": weights are cut to whole numbers, as in Keras; ask for {.dtype = at::kFloat} to keep them"));
    const Tensor weight = broadcastable_weight(name_, sample_weight, labels).expand_as(labels);
    return weight.reshape({-1}).to(dtype_).to(at::kDouble);
  }

 private:
  std::string name_;
  at::ScalarType dtype_;
  std::shared_ptr<std::atomic<bool>> warned_ = std::make_shared<std::atomic<bool>>(false);
};

void require_equal(const std::string& name, const Tensor& labels, const Tensor& predictions) {
  if (labels.sizes() == predictions.sizes()) return;
  throw Error(ErrorCode::invalid_argument, str(name, ": labels of classes ", to_string(labels.sizes()),
                                               " do not fit predictions of classes ", to_string(predictions.sizes())));
}

// The confusion matrix, [labels, predictions]. Source: Keras's _IoUBase.update_state
Tensor confusion_matrix(const IoUOptions& options, const Weights& weights, const Tensor& raw_labels,
                        const Tensor& raw_predictions, const Tensor& sample_weight) {
  auto [labels, predictions] = same_rank(raw_labels, raw_predictions);
  require_equal(options.name, labels, predictions);
  Tensor weight = weights(sample_weight, labels);
  labels = labels.reshape({-1});
  predictions = predictions.reshape({-1});
  if (options.ignore_class) {
    const Tensor counts = labels != *options.ignore_class;
    weight = at::where(counts, weight, 0.0);
    labels = at::where(counts, labels, 0);
    predictions = at::where(counts, predictions, 0);
  }
  check_class_indices(options.name, labels, options.num_classes);
  check_class_indices(options.name, predictions, options.num_classes);
  const int64_t n = options.num_classes;
  return at::zeros({n * n}, weight.options()).index_add_(0, labels * n + predictions, weight).view({n, n});
}

Tensor iou_result(const IoUOptions& options, const Tensor& matrix) {
  const Tensor ids = at::tensor(options.target_class_ids, at::kLong);
  const Tensor both = matrix.diagonal();
  const Tensor either = (matrix.sum(0) + matrix.sum(1) - both).index_select(0, ids);
  const Tensor occurred = either > 1e-9;
  const Tensor scores =
      (both.index_select(0, ids) / (either + losses::kEpsilon)).masked_fill(occurred.logical_not(), 0);
  return scores.sum() / (occurred.sum() + losses::kEpsilon);
}

void check(const IoUOptions& options) {
  if (options.num_classes < 1)
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": num_classes is ", options.num_classes, "; it must be above 0"));
  if (options.target_class_ids.empty())
    throw Error(ErrorCode::invalid_argument, str(options.name, ": target_class_ids names no class"));
  for (const int64_t id : options.target_class_ids)
    if (id < 0 || id >= options.num_classes)
      throw Error(ErrorCode::invalid_argument, str(options.name, ": target class ", id, " lies outside of [0, ",
                                                   options.num_classes, "), the classes"));
}

}  // namespace

IoU::IoU(const IoUOptions& options) : IoU(options, largest_along(options.sparse_y_pred, options)) {
  tell_made_from({"IoU", options});
}

IoU::IoU(const IoUOptions& options, const Classes& classes)
    : Metric(
          options.name, {options.num_classes, options.num_classes},
          [options, classes, label_classes = largest_along(options.sparse_y_true, options), weights = Weights(options)](
              const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
            return confusion_matrix(options, weights, label_classes(y_true), classes(y_pred), sample_weight);
          },
          [options](const Tensor& state) { return iou_result(options, state); }, Direction::up) {
  check(options);
}

BinaryIoU::BinaryIoU(const BinaryIoUOptions& options)
    : IoU({.num_classes = 2,
           .target_class_ids = options.target_class_ids,
           .dtype = options.dtype,
           .name = options.name},
          [threshold = options.threshold](const Tensor& y_pred) { return y_pred.ge(threshold).to(at::kLong); }) {
  tell_made_from({"BinaryIoU", options});
}

MeanIoU::MeanIoU(const MeanIoUOptions& options)
    : IoU({.num_classes = options.num_classes,
           .target_class_ids = all_classes(options.num_classes),
           .ignore_class = options.ignore_class,
           .sparse_y_true = options.sparse_y_true,
           .axis = options.axis,
           .sparse_y_pred = options.sparse_y_pred,
           .dtype = options.dtype,
           .name = options.name}) {
  tell_made_from({"MeanIoU", options});
}

OneHotIoU::OneHotIoU(const OneHotIoUOptions& options)
    : IoU({.num_classes = options.num_classes,
           .target_class_ids = options.target_class_ids,
           .ignore_class = options.ignore_class,
           .sparse_y_true = false,
           .axis = options.axis,
           .sparse_y_pred = options.sparse_y_pred,
           .dtype = options.dtype,
           .name = options.name}) {
  tell_made_from({"OneHotIoU", options});
}

OneHotMeanIoU::OneHotMeanIoU(const OneHotMeanIoUOptions& options)
    : IoU({.num_classes = options.num_classes,
           .target_class_ids = all_classes(options.num_classes),
           .ignore_class = options.ignore_class,
           .sparse_y_true = false,
           .axis = options.axis,
           .sparse_y_pred = options.sparse_y_pred,
           .dtype = options.dtype,
           .name = options.name}) {
  tell_made_from({"OneHotMeanIoU", options});
}

}  // namespace tutti::keras::metrics
