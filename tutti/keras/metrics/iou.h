#pragma once

#include <c10/core/ScalarType.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/metrics/metric.h"

namespace tutti::keras::metrics {

struct IoUOptions {
  int64_t num_classes = 0;
  std::vector<int64_t> target_class_ids = {};  // the classes that count
  std::optional<int64_t> ignore_class = {};    // samples with this label do not count
  bool sparse_y_true = true;                   // labels are class numbers; else the largest along the axis is the class
  int64_t axis = -1;
  bool sparse_y_pred = true;        // the same of the predictions
  at::ScalarType dtype = at::kInt;  // of the counts, as in Keras: weights are cut to it, kFloat keeps their fractions
  std::string name = "io_u";
};

// Intersection over union, TP / (TP + FP + FN) of a class, averaged over the classes that occurred. Shapes: class
// numbers of any shape, both alike; where they are not sparse, with an axis of classes. Labels that are out of range
// are refused. TF: tf.keras.metrics.IoU
class IoU : public Metric {
 public:
  explicit IoU(const IoUOptions& options);

 protected:
  // Of predictions made class numbers by a function.
  IoU(const IoUOptions& options, const std::function<Tensor(const Tensor& y_pred)>& classes);
};

struct BinaryIoUOptions {
  std::vector<int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;  // a prediction of at least this means 1
  at::ScalarType dtype = at::kInt;
  std::string name = "binary_io_u";
};

// The IoU of labels 0 and 1. TF: tf.keras.metrics.BinaryIoU
class BinaryIoU : public IoU {
 public:
  explicit BinaryIoU(const BinaryIoUOptions& options = {});
};

struct MeanIoUOptions {
  int64_t num_classes = 0;
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;
  int64_t axis = -1;
  bool sparse_y_pred = true;
  at::ScalarType dtype = at::kInt;
  std::string name = "mean_io_u";
};

// The IoU of all classes. TF: tf.keras.metrics.MeanIoU
class MeanIoU : public IoU {
 public:
  explicit MeanIoU(const MeanIoUOptions& options);
};

struct OneHotIoUOptions {
  int64_t num_classes = 0;
  std::vector<int64_t> target_class_ids = {};
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
  at::ScalarType dtype = at::kInt;
  std::string name = "one_hot_io_u";
};

// The IoU of one-hot labels. TF: tf.keras.metrics.OneHotIoU
class OneHotIoU : public IoU {
 public:
  explicit OneHotIoU(const OneHotIoUOptions& options);
};

struct OneHotMeanIoUOptions {
  int64_t num_classes = 0;
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
  at::ScalarType dtype = at::kInt;
  std::string name = "one_hot_mean_io_u";
};

// The IoU of all classes of one-hot labels. TF: tf.keras.metrics.OneHotMeanIoU
class OneHotMeanIoU : public IoU {
 public:
  explicit OneHotMeanIoU(const OneHotMeanIoUOptions& options);
};

}  // namespace tutti::keras::metrics
