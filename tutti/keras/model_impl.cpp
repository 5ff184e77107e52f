#include "tutti/keras/model_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <iostream>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/class_weight.h"
#include "tutti/tensor/view.h"

namespace tutti::keras {

namespace {

// fit, evaluate and predict work outside of the scope that may be active around them.
class OutsideOfScopes {
 public:
  explicit OutsideOfScopes(const std::string& function) : view_(global_view(function)), context_({}) {}

 private:
  static ThreadView global_view(const std::string& function) {
    if (ThreadView::current().replica < 0) return {};
    throw Error(ErrorCode::failed_precondition,
                str(function, ": called in a replica's function; it runs the replicas itself, call it outside of run"));
  }

  ThreadViewGuard view_;
  DistributionContextGuard context_;
};

}  // namespace

ModelImpl::ModelImpl(std::string type, std::string name)
    : LayerImpl(std::move(type), std::move(name)), strategy_(get_strategy()) {}

StepShare ModelImpl::train_step(const Batch& shard, const GlobalBatch& global) const {
  const Tensor predictions = call(shard.x, {.training = true});
  const Tensor loss = compute_loss(shard, predictions, global);
  compiled_.optimizer->apply_gradients(gradients(compiled_.optimizer->scale_loss(loss), trainable_variables()),
                                       trainable_variables());
  return {.loss = loss.detach(), .metrics = metric_contributions(shard, predictions)};
}

StepShare ModelImpl::test_step(const Batch& shard, const GlobalBatch& global) const {
  const c10::NoGradGuard no_grad;
  const Tensor predictions = call(shard.x, {.training = false});
  return {.loss = compute_loss(shard, predictions, global), .metrics = metric_contributions(shard, predictions)};
}

Tensor ModelImpl::compute_loss(const Batch& shard, const Tensor& predictions, const GlobalBatch& global) const {
  Tensor loss = compiled_.loss->share(shard.y, predictions, shard.sample_weight, global.size);
  for (const Tensor& penalty : losses()) loss = loss + penalty / global.num_replicas;
  return loss;
}

std::vector<Tensor> ModelImpl::metric_contributions(const Batch& shard, const Tensor& predictions) const {
  const Tensor detached = predictions.detach();
  std::vector<Tensor> contributions;
  for (const metrics::Metric& metric : compiled_.metrics)
    contributions.push_back(metric.contribution(shard.y, detached));
  return contributions;
}

History ModelImpl::fit(const Batches& batches, const FitOptions& options) {
  require_compiled("fit", /*with_optimizer=*/true);
  const OutsideOfScopes outside(name() + ".fit");
  Progress progress(std::cout, options.verbose);
  History history;
  for (int64_t epoch = options.initial_epoch; epoch < options.epochs; ++epoch) {
    progress.begin_epoch(epoch, options.epochs);
    RunningLogs running(compiled_.metrics);
    const int64_t num_steps = run_pass(batches, &ModelImpl::train_step, running, options.class_weight);
    Logs logs = running.logs();
    if (options.validation_data)
      for (const auto& [name, value] : evaluate(*options.validation_data, Verbose::silent)) logs["val_" + name] = value;
    history.epoch.push_back(epoch);
    for (const auto& [name, value] : logs) history.history[name].push_back(value);
    progress.end_epoch(num_steps, logs);
  }
  if (!history.epoch.empty()) compiled_.optimizer->finalize_variable_values(trainable_variables());
  return history;
}

Logs ModelImpl::evaluate(const Batches& batches, Verbose verbose) {
  require_compiled("evaluate", /*with_optimizer=*/false);
  const OutsideOfScopes outside(name() + ".evaluate");
  Progress progress(std::cout, verbose);
  RunningLogs running(compiled_.metrics);
  const int64_t num_steps = run_pass(batches, &ModelImpl::test_step, running);
  const Logs logs = running.logs();
  progress.end_epoch(num_steps, logs);
  return logs;
}

Tensor ModelImpl::predict(const Batches& batches) {
  const c10::NoGradGuard no_grad;
  const OutsideOfScopes outside(name() + ".predict");
  const auto predict_step = [this](const Batch& shard) { return call(shard.x, {.training = false}); };
  std::vector<Tensor> outputs;
  const Batches::Next next = batches.begin(strategy_);
  while (const auto shards = next()) {
    build_for(*shards);
    for (const Tensor& output : strategy_.run(predict_step, *shards))
      outputs.push_back(outputs.empty() ? output : output.to(outputs[0].device()));
  }
  if (outputs.empty()) throw Error(ErrorCode::invalid_argument, str(name(), ".predict: there is no batch to predict"));
  return at::cat(outputs);
}

int64_t ModelImpl::run_pass(const Batches& batches, Step step, RunningLogs& running,
                            const std::map<int64_t, double>& class_weight) {
  int64_t num_steps = 0;
  const Batches::Next next = batches.begin(strategy_);
  while (auto shards = next()) {
    build_for(*shards);
    GlobalBatch global{.size = 0, .num_replicas = strategy_.num_replicas_in_sync()};
    for (size_t replica = 0; replica < shards->size(); ++replica) {
      Batch& shard = (*shards)[replica];
      global.size += shard.size();
      if (!class_weight.empty()) shard.sample_weight = weigh_classes(shard, class_weight);
    }
    const auto step_of = [&](const Batch& shard) { return (this->*step)(shard, global); };
    running.add(strategy_.run(step_of, *shards).values(), global.size);
    ++num_steps;
  }
  if (num_steps == 0) throw Error(ErrorCode::invalid_argument, str(name(), ": the dataset has no batch"));
  return num_steps;
}

void ModelImpl::build_for(const PerReplica<Batch>& shards) {
  if (shards[0].x.dim() == 0)
    throw Error(ErrorCode::invalid_argument, str(name(), ": an input is a scalar; it must have a batch dimension"));
  if (built()) return;
  Shape shape = shards[0].x.sizes().vec();
  shape[0] = kUnknown;
  strategy_.build([&] { build_once(shape); });
}

void ModelImpl::visit_state(StateVisitor& visitor) {
  LayerImpl::visit_state(visitor);
  if (!compiled_.optimizer) return;
  compiled_.optimizer->build(trainable_variables());
  visitor.object("optimizer", *compiled_.optimizer->impl());
}

void ModelImpl::require_compiled(const char* function, bool with_optimizer) const {
  if (compiled_.loss && (compiled_.optimizer || !with_optimizer)) return;
  throw Error(ErrorCode::failed_precondition,
              str(name(), '.', function, ": the model has no ", compiled_.loss ? "optimizer" : "loss",
                  "; call compile({.optimizer = …, .loss = …}) first"));
}

void ModelImpl::add_totals(Summary& summary) const {
  summary.trainable = weight_totals(weights(), /*trainable=*/true);
  summary.non_trainable = weight_totals(weights(), /*trainable=*/false);
  if (!compiled_.optimizer) return;
  SummaryTotals optimizer;
  for (const Tensor& tensor : compiled_.optimizer->impl()->state()) {
    optimizer.num += tensor.numel();
    optimizer.num_bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  if (optimizer.num > 0) summary.optimizer = optimizer;
}

}  // namespace tutti::keras
