#include "tutti/keras/running_logs.h"

#include <ATen/ops/zeros.h>

namespace tutti::keras {

RunningLogs::RunningLogs(std::span<const std::string> loss_names, std::span<const LoggedMetric> metrics)
    : loss_names_(loss_names), metrics_(metrics) {
  for (const LoggedMetric& logged : metrics_) logged.metric.reset_state();
}

void RunningLogs::add(std::span<const StepShare> shares, int64_t global_batch_size) {
  num_samples_ += global_batch_size;
  for (const StepShare& share : shares) {
    for (size_t i = 0; i < share.losses.size(); ++i) {
      if (i == weighted_losses_.size())
        weighted_losses_.push_back(at::zeros({}, share.losses[i].options().dtype(at::kDouble)));
      weighted_losses_[i].add_(share.losses[i].to(weighted_losses_[i].device()), global_batch_size);
    }
    for (size_t i = 0; i < metrics_.size(); ++i) metrics_[i].metric.add(share.metrics[i]);
  }
}

double RunningLogs::mean_loss(size_t i) const {
  return weighted_losses_[i].item<double>() / static_cast<double>(num_samples_);
}

Logs RunningLogs::logs() const {
  Logs logs;
  for (size_t i = 0; i < weighted_losses_.size(); ++i) logs[loss_names_[i]] = mean_loss(i);
  for (const LoggedMetric& logged : metrics_) {
    const Tensor result = logged.metric.result();
    if (result.dim() == 0) {
      logs[logged.name] = result.item<double>();
    } else {
      for (int64_t i = 0; i < result.numel(); ++i)
        logs[logged.name + '_' + std::to_string(i)] = result.flatten()[i].item<double>();
    }
  }
  return logs;
}

}  // namespace tutti::keras
