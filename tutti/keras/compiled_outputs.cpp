#include "tutti/keras/compiled_outputs.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"

namespace tutti::keras {
namespace {

// The one of a list that belongs to an output: none, the same for all, or its own.
const Tensor& of_output(const Tensors& tensors, size_t output) {
  static const Tensor kNone;
  if (tensors.empty()) return kNone;
  return tensors.size() == 1 ? tensors[0] : tensors[output];
}

}  // namespace

CompiledOutputs::CompiledOutputs(const CompileOptions& options, std::vector<std::string> output_names)
    : output_names_(std::move(output_names)), objectives_(output_names_.size()) {
  set_losses(options);
  add_metrics(options.metrics, /*weighted=*/false);
  add_metrics(options.weighted_metrics, /*weighted=*/true);
}

size_t CompiledOutputs::position(const std::string& name, const char* what) const {
  const auto found = std::ranges::find(output_names_, name);
  if (found == output_names_.end())
    throw Error(ErrorCode::invalid_argument,
                str("compile: ", what, " names the output \"", name, "\"; the outputs are ", quoted(output_names_)));
  return static_cast<size_t>(found - output_names_.begin());
}

void CompiledOutputs::set_losses(const CompileOptions& options) {
  const auto distribute = [&]<class T>(const PerOutput<T>& given, const char* what, const auto& set) {
    if (!given.for_all() && !given.values().empty() && given.values().size() != objectives_.size())
      throw Error(ErrorCode::invalid_argument, str("compile: ", given.values().size(), ' ', what, " for ",
                                                   objectives_.size(), " outputs: ", quoted(output_names_)));
    if (!given.values().empty())
      for (size_t i = 0; i < objectives_.size(); ++i) set(objectives_[i], given.values()[given.for_all() ? 0 : i]);
    for (const auto& [name, value] : given.by_name()) set(objectives_[position(name, what)], value);
  };
  distribute(options.loss, "losses", [](Objective& objective, const losses::Loss& loss) { objective.loss = loss; });
  distribute(options.loss_weights, "loss weights",
             [](Objective& objective, double weight) { objective.weight = weight; });
  loss_names_.emplace_back("loss");
  if (output_names_.size() > 1)
    for (size_t i = 0; i < objectives_.size(); ++i)
      if (objectives_[i].loss) loss_names_.push_back(output_names_[i] + "_loss");
}

void CompiledOutputs::add_metrics(const OutputMetrics& metrics, bool weighted) {
  const auto add = [&](size_t output, const metrics::Metric& metric) {
    metrics_.push_back({unused_name(output, metric.name(), weighted), metric});
    metric_of_.push_back({output, weighted});
  };
  if (!metrics.only().empty() && output_names_.size() > 1)
    throw Error(ErrorCode::invalid_argument,
                str("compile: the model has several outputs; say which has which metrics by their names, as in {{\"",
                    output_names_[0], "\", {…}}}"));
  for (const metrics::Metric& metric : metrics.only()) add(0, metric);
  for (const auto& [name, list] : metrics.by_name())
    for (const metrics::Metric& metric : list) add(position(name, "metrics"), metric);
}

std::string CompiledOutputs::unused_name(size_t output, const std::string& metric, bool weighted) const {
  const std::string prefix = output_names_.size() > 1 ? output_names_[output] + '_' : "";
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(metrics_, name, &LoggedMetric::name) != metrics_.end();
  };
  std::string name = prefix + metric;
  if (weighted && taken(name)) name = str(prefix, "weighted_", metric);
  const std::string first = name;
  for (int number = 1; taken(name); ++number) name = str(first, '_', number);
  return name;
}

void CompiledOutputs::check(const Batch& shard, size_t num_predictions) const {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, "fit: " + what); };
  if (num_predictions != objectives_.size())
    refuse(str(num_predictions, " outputs, where the model has ", objectives_.size(), ": ", quoted(output_names_)));
  if (shard.sample_weight.size() > 1 && shard.sample_weight.size() != num_predictions)
    refuse(str(shard.sample_weight.size(), " sample weights for ", num_predictions,
               " outputs; give one for all or one for each"));
  for (size_t i = 0; i < objectives_.size(); ++i) {
    const bool has_metric = std::ranges::any_of(metric_of_, [i](const MetricOf& metric) { return metric.output == i; });
    if (!objectives_[i].loss && !has_metric) continue;
    if (shard.y.size() != num_predictions)
      refuse(str(shard.y.size(), " labels for ", num_predictions, " outputs: ", quoted(output_names_),
                 "; give one for each, or compile without losses and metrics"));
    if (!shard.y[i].defined())
      refuse(str("the output \"", output_names_[i], "\" has a ", has_metric ? "metric" : "loss",
                 ", but the batch has no label of it"));
  }
}

StepShare CompiledOutputs::share(const Batch& shard, const std::vector<layers::MaskedTensor>& predictions,
                                 int64_t global_batch_size) const {
  check(shard, predictions.size());
  StepShare share;
  share.losses.emplace_back();
  for (size_t i = 0; i < objectives_.size(); ++i) {
    const Objective& objective = objectives_[i];
    if (!objective.loss) continue;
    const Tensor loss = objective.loss->share(shard.y[i], predictions[i].tensor, of_output(shard.sample_weight, i),
                                              global_batch_size, predictions[i].mask);
    if (predictions.size() > 1) share.losses.push_back(loss);
    const Tensor part = objective.weight == 1 ? loss : loss * objective.weight;
    share.losses[0] = share.losses[0].defined() ? share.losses[0] + part : part;
  }
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const auto& [output, weighted] = metric_of_[i];
    const Tensor weight = weighted ? of_output(shard.sample_weight, output) : Tensor();
    share.metrics.push_back(metrics_[i].metric.share(shard.y[output], predictions[output].tensor.detach(), weight,
                                                     predictions[output].mask));
  }
  return share;
}

}  // namespace tutti::keras
