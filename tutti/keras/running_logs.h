#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/history.h"
#include "tutti/keras/metrics/metric.h"

namespace tutti::keras {

class CompiledOutputs;

// One replica's part of a step on a global batch. The shares of all replicas add up to the batch's numbers.
struct StepShare {
  std::vector<Tensor> losses = {};  // scalars: the loss, then those of the outputs if there are several; or none
  std::vector<metrics::Share> metrics = {};         // of each compiled metric; or none
  std::map<std::string, Tensor> named_losses = {};  // scalars under names of a step's own: "generator_loss"
};

// What the replicas bring of one global batch.
struct BatchShares {
  std::vector<StepShare> replicas = {};  // in their order
  int64_t batch_size = 0;                // of the global batch
};

struct LoggedMetric {
  std::string name;
  metrics::Metric metric;
};

// Losses and metrics over the samples of an epoch so far. A loss is the mean of the batches' losses, each weighted by
// the number of its samples, as in Keras.
class RunningLogs {
 public:
  explicit RunningLogs(std::shared_ptr<const CompiledOutputs> objectives);

  // What the numbers are of.
  const std::shared_ptr<const CompiledOutputs>& objectives() const { return objectives_; }

  // Adds the shares of one global batch, in the order of the replicas. Throws: invalid_argument, in the name of
  // `model`, for other numbers of losses and metrics than were compiled.
  void add(std::span<const StepShare> shares, int64_t global_batch_size, const std::string& model);

  // The numbers so far; waits for the devices. Metrics that no step contributed to are left out.
  Logs logs() const;
  // Of them "loss" alone, without computing the metrics; nothing if the steps give none.
  std::optional<double> loss() const;

 private:
  struct RunningLoss {
    Tensor weighted;  // float64, where the first share was
    int64_t num_samples = 0;

    double mean() const;
  };

  void check(const StepShare& share, const std::string& model) const;
  void add_loss(const std::string& name, std::span<const Tensor> parts, int64_t global_batch_size);

  std::shared_ptr<const CompiledOutputs> objectives_;
  std::map<std::string, RunningLoss> losses_;
  std::vector<metrics::RunningMetric> metrics_;
};

}  // namespace tutti::keras
