#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/data/columns.h"
#include "tutti/estimator/export_output.h"
#include "tutti/estimator/mode_keys.h"
#include "tutti/estimator/session_run_hook.h"
#include "tutti/keras/metrics/metric.h"
#include "tutti/keras/optimizers/train_op.h"

namespace tutti::estimator {

// What a batch brings to a metric of an evaluation. TF: a pair of eval_metric_ops.
struct EvalMetric {
  keras::metrics::Metric metric;
  Tensor y_true;
  Tensor y_pred;
  Tensor sample_weight = {};
};

struct EstimatorSpecOptions {
  ModeKeys mode = ModeKeys::train;
  data::Columns predictions = {};  // [batch, …] each
  Tensor loss = {};                // of this batch, one number
  keras::optimizers::TrainOp train_op = {};
  std::map<std::string, EvalMetric> eval_metric_ops = {};
  ExportOutputs export_outputs = {};  // what export_saved_model serves, looked at in prediction; none: the predictions
  std::vector<std::shared_ptr<SessionRunHook>> training_hooks = {};
  std::vector<std::shared_ptr<SessionRunHook>> training_chief_hooks = {};  // of several processes the chief's alone
  std::vector<std::shared_ptr<SessionRunHook>> evaluation_hooks = {};
  std::vector<std::shared_ptr<SessionRunHook>> prediction_hooks = {};
};

// What a model function returns: training needs a loss and a train_op, evaluation a loss, prediction predictions; the
// rest is looked at where its mode wants it.
// Throws: invalid_argument, with the mode and the field, for what is missing, a loss of several numbers, or a hook that
// is a null pointer; and as check_export_outputs. TF: tf.estimator.EstimatorSpec.
class EstimatorSpec {
 public:
  explicit EstimatorSpec(EstimatorSpecOptions options);

  const EstimatorSpecOptions& operator*() const { return options_; }
  const EstimatorSpecOptions* operator->() const { return &options_; }

 private:
  EstimatorSpecOptions options_;
};

}  // namespace tutti::estimator
