#include "tutti/keras/running_logs.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/compiled_outputs.h"
#include "tutti/keras/layer_names.h"

namespace tutti::keras {

RunningLogs::RunningLogs(std::shared_ptr<const CompiledOutputs> objectives) : objectives_(std::move(objectives)) {
  for (const LoggedMetric& logged : objectives_->metrics()) metrics_.emplace_back(logged.metric);
}

void RunningLogs::add(std::span<const StepShare> shares, int64_t global_batch_size, const std::string& model) {
  for (const StepShare& share : shares) check(share, model);
  const auto parts_of = [&](const auto& part) {
    std::vector<Tensor> parts;
    for (const StepShare& share : shares)
      if (const Tensor* const loss = part(share); loss && loss->defined()) parts.push_back(*loss);
    return parts;
  };
  const std::vector<std::string>& names = objectives_->loss_names();
  for (size_t i = 0; i < names.size(); ++i)
    add_loss(names[i],
             parts_of([&](const StepShare& share) { return i < share.losses.size() ? &share.losses[i] : nullptr; }),
             global_batch_size);
  std::set<std::string> own_names;
  for (const StepShare& share : shares)
    for (const auto& [name, loss] : share.named_losses) own_names.insert(name);
  for (const std::string& name : own_names)
    add_loss(name, parts_of([&](const StepShare& share) {
               const auto found = share.named_losses.find(name);
               return found == share.named_losses.end() ? nullptr : &found->second;
             }),
             global_batch_size);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    std::vector<metrics::Share> parts;
    for (const StepShare& share : shares)
      if (!share.metrics.empty()) parts.push_back(share.metrics[i]);
    if (!parts.empty()) metrics_[i].add(parts);
  }
}

void RunningLogs::check(const StepShare& share, const std::string& model) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, str(model, ": a step returned ", what));
  };
  if (share.losses.size() > objectives_->loss_names().size())
    refuse(str(share.losses.size(), " losses; those compiled are ", quoted(objectives_->loss_names()),
               ". Give others a name in StepShare::named_losses"));
  if (!share.metrics.empty() && share.metrics.size() != metrics_.size())
    refuse(str("shares of ", share.metrics.size(), " metrics; ", metrics_.size(),
               " are compiled. Return one for each, or none"));
  for (const auto& [name, loss] : share.named_losses) {
    const auto is_metric = [&](const LoggedMetric& metric) { return metric.name == name; };
    if (std::ranges::any_of(objectives_->metrics(), is_metric) ||
        (!share.losses.empty() && std::ranges::count(objectives_->loss_names(), name) > 0))
      refuse(str("a loss under the name \"", name, "\", which is taken by what was compiled"));
  }
}

void RunningLogs::add_loss(const std::string& name, std::span<const Tensor> parts, int64_t global_batch_size) {
  if (parts.empty()) return;
  RunningLoss& running = losses_[name];
  if (!running.weighted.defined())
    running.weighted = at::zeros({}, parts[0].options().dtype(at::kDouble).requires_grad(false));
  for (const Tensor& part : parts)
    running.weighted.add_(part.detach().to(running.weighted.device()), global_batch_size);
  running.num_samples += global_batch_size;
}

double RunningLogs::RunningLoss::mean() const { return weighted.item<double>() / static_cast<double>(num_samples); }

std::optional<double> RunningLogs::loss() const {
  const auto found = losses_.find("loss");
  return found == losses_.end() ? std::nullopt : std::optional(found->second.mean());
}

Logs RunningLogs::logs() const {
  Logs logs;
  for (const auto& [name, loss] : losses_) logs[name] = loss.mean();
  for (size_t i = 0; i < metrics_.size(); ++i) {
    if (!metrics_[i].was_updated()) continue;
    const std::string& name = objectives_->metrics()[i].name;
    const Tensor result = metrics_[i].result();
    if (result.dim() == 0) {
      logs[name] = result.item<double>();
    } else {
      for (int64_t k = 0; k < result.numel(); ++k)
        logs[name + '_' + std::to_string(k)] = result.flatten()[k].item<double>();
    }
  }
  return logs;
}

}  // namespace tutti::keras
