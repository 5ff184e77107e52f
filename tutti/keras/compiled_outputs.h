#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/batches.h"
#include "tutti/keras/compile_options.h"
#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras {

// What compile said about each of a model's outputs.
class CompiledOutputs {
 public:
  // Throws: invalid_argument for another number of losses or weights than outputs, for names that no output has, and
  // for metrics of one output where there are several.
  CompiledOutputs(const CompileOptions& options, std::vector<std::string> output_names);

  // A shard's share of the loss of the global batch, by output and together, and its contribution to each metric. The
  // loss is undefined if no output has one. Labels are looked at where an output has a loss or a metric.
  // Throws: invalid_argument for another number of labels than outputs, or one that is missing, and as the losses and
  // metrics.
  StepShare share(const Batch& shard, const std::vector<layers::MaskedTensor>& predictions,
                  int64_t global_batch_size) const;

  // For RunningLogs. "loss", then "NAME_loss" for each output if there are several.
  const std::vector<std::string>& loss_names() const { return loss_names_; }
  const std::vector<LoggedMetric>& metrics() const { return metrics_; }
  const std::vector<std::string>& output_names() const { return output_names_; }

 private:
  struct Objective {
    std::optional<losses::Loss> loss;  // an output may have none
    double weight = 1;
  };
  struct MetricOf {
    size_t output;
    bool weighted;
  };

  void check(const Batch& shard, size_t num_predictions) const;
  size_t position(const std::string& name, const char* what) const;
  void set_losses(const CompileOptions& options);
  void add_metrics(const OutputMetrics& metrics, bool weighted);
  // "accuracy", "out_accuracy" of one output among several; "weighted_accuracy" beside one that is not; then
  // "accuracy_1". As Keras names them.
  std::string unused_name(size_t output, const std::string& metric, bool weighted) const;

  std::vector<std::string> output_names_;
  std::vector<Objective> objectives_;  // by output
  std::vector<std::string> loss_names_;
  std::vector<LoggedMetric> metrics_;
  std::vector<MetricOf> metric_of_;  // beside metrics_
};

}  // namespace tutti::keras
