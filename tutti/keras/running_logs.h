#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/history.h"
#include "tutti/keras/metrics/metric.h"

namespace tutti::keras {

// One replica's part of a step on a global batch. The shares of all replicas add up to the batch's numbers.
struct StepShare {
  std::vector<Tensor> losses;   // scalars: the loss, then those of the outputs if there are several
  std::vector<Tensor> metrics;  // the contribution to each compiled metric
};

struct LoggedMetric {
  std::string name;
  metrics::Metric metric;
};

// Losses and metrics over the samples of an epoch so far. A loss is the mean of the batches' losses, each weighted by
// the number of its samples, as in Keras.
class RunningLogs {
 public:
  // Resets the metrics. Both lists outlive this.
  RunningLogs(std::span<const std::string> loss_names, std::span<const LoggedMetric> metrics);

  // Adds the shares of one global batch, in the order of the replicas.
  void add(std::span<const StepShare> shares, int64_t global_batch_size);

  // The numbers so far, of at least one batch; waits for the devices.
  Logs logs() const;
  // Of them "loss" alone, without computing the metrics.
  double loss() const { return mean_loss(0); }

 private:
  double mean_loss(size_t i) const;

  std::span<const std::string> loss_names_;
  std::span<const LoggedMetric> metrics_;
  std::vector<Tensor> weighted_losses_;  // float64, where the first share was
  int64_t num_samples_ = 0;
};

}  // namespace tutti::keras
