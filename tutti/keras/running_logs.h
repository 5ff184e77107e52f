#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/history.h"
#include "tutti/keras/metrics/metric.h"

namespace tutti::keras {

// One replica's part of a step on a global batch. The shares of all replicas add up to the batch's numbers.
struct StepShare {
  Tensor loss;                  // scalar, detached
  std::vector<Tensor> metrics;  // the contribution to each compiled metric
};

// Loss and metrics over the samples of an epoch so far. The loss is the mean of the batches' losses, each weighted by
// the number of its samples, as in Keras.
class RunningLogs {
 public:
  // Resets the metrics.
  explicit RunningLogs(const std::vector<metrics::Metric>& metrics);

  // Adds the shares of one global batch, in the order of the replicas.
  void add(std::span<const StepShare> shares, int64_t global_batch_size);

  // The numbers so far, of at least one batch; waits for the devices.
  Logs logs() const;

 private:
  std::vector<metrics::Metric> metrics_;
  Tensor weighted_loss_;  // float64, where the first share was; undefined: none yet
  int64_t num_samples_ = 0;
};

}  // namespace tutti::keras
