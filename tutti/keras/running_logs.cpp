#include "tutti/keras/running_logs.h"

#include <ATen/ops/zeros.h>

namespace tutti::keras {

RunningLogs::RunningLogs(const std::vector<metrics::Metric>& metrics) : metrics_(metrics) {
  for (const metrics::Metric& metric : metrics_) metric.reset_state();
}

void RunningLogs::add(std::span<const StepShare> shares, int64_t global_batch_size) {
  num_samples_ += global_batch_size;
  for (const StepShare& share : shares) {
    if (!weighted_loss_.defined()) weighted_loss_ = at::zeros({}, share.loss.options().dtype(at::kDouble));
    weighted_loss_.add_(share.loss.to(weighted_loss_.device()), global_batch_size);
    for (size_t i = 0; i < metrics_.size(); ++i) metrics_[i].add(share.metrics[i]);
  }
}

Logs RunningLogs::logs() const {
  Logs logs{{"loss", weighted_loss_.item<double>() / static_cast<double>(num_samples_)}};
  for (const metrics::Metric& metric : metrics_) logs[metric.name()] = metric.result().item<double>();
  return logs;
}

}  // namespace tutti::keras
