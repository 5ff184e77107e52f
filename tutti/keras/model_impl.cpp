#include "tutti/keras/model_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/compiled_strategy.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/class_weight.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/call_context_internal.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/process_shares.h"
#include "tutti/keras/recorded_steps.h"
#include "tutti/tensor/remote_reads.h"

namespace tutti::keras {
namespace {

// Brings tensors with names into the order of `order`. `required` is false where a name may be missing: its place then
// holds an undefined tensor.
void sort_by_name(Tensors& tensors, const std::vector<std::string>& order, const char* what, bool required) {
  std::vector<Tensor> sorted(order.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto found = std::ranges::find(order, tensors.names[i]);
    if (found == order.end())
      throw Error(ErrorCode::invalid_argument, str("the batch has the ", what, " \"", tensors.names[i],
                                                   "\"; the model's ", what, "s are ", quoted(order)));
    sorted[static_cast<size_t>(found - order.begin())] = tensors.values[i];
  }
  for (size_t i = 0; i < sorted.size(); ++i)
    if (required && !sorted[i].defined())
      throw Error(ErrorCode::invalid_argument,
                  str("the batch lacks the ", what, " \"", order[i], "\"; it has ", quoted(tensors.names)));
  tensors = Tensors(std::move(sorted));
}

// Of these shapes, with an extent of 1 where one is unknown.
std::vector<Tensor> zeros_of(const std::vector<Shape>& shapes) {
  std::vector<Tensor> zeros;
  for (Shape shape : shapes) {
    std::ranges::replace(shape, kUnknown, int64_t{1});
    zeros.push_back(at::zeros(shape));
  }
  return zeros;
}

// Throws unless what a step gets are batches.
void check_batched(const std::string& model, const Batch& batch) {
  constexpr const char* kAdvice = "; if the dataset gives single samples, batch it: dataset.batch(n)";
  if (batch.x.empty()) throw Error(ErrorCode::invalid_argument, str(model, ": the batch has no input"));
  const auto check = [&](const Tensors& tensors, const char* what) {
    for (const Tensor& tensor : tensors.values) {
      if (tensor.dim() == 0)
        throw Error(ErrorCode::invalid_argument,
                    str(model, ": ", what, " is a scalar; it must have a batch dimension", kAdvice));
      if (tensor.size(0) != batch.size())
        throw Error(ErrorCode::invalid_argument,
                    str(model, ": x has ", batch.size(), " rows, but ", what, " has shape ", to_string(tensor.sizes()),
                        "; each must have one row for each sample", kAdvice));
    }
  };
  check(batch.x, "an input");
  check(batch.y, "a label");
  check(batch.sample_weight, "a sample weight");
}

bool computes_in_float16(const layers::LayerImpl& layer) {
  return compute_dtype(layer.dtype_policy()) == at::kHalf ||
         std::ranges::any_of(layer.sublayers(), [](const auto& inner) { return computes_in_float16(*inner); });
}

}  // namespace

ModelImpl::ModelImpl(std::string type, std::string name)
    : LayerImpl(std::move(type), std::move(name)), strategy_(get_strategy()) {}

void ModelImpl::compile(CompileOptions options) {
  if (options.steps_per_execution < 1)
    refuse(str("compile: steps_per_execution is ", options.steps_per_execution, "; it must be positive"));
  std::swap(compiled_, options);
  objectives_.reset();
  recorded_steps_.reset();
  try {
    if (built()) objectives_ = make_objectives();
  } catch (...) {
    std::swap(compiled_, options);
    throw;
  }
  is_compiled_ = true;
}

const optimizers::Optimizer& ModelImpl::optimizer() const {
  if (!compiled_.optimizer)
    throw Error(ErrorCode::failed_precondition,
                str(name(), ".fit: the model has no optimizer; call compile({.optimizer = …, .loss = …}) first"));
  return *compiled_.optimizer;
}

void ModelImpl::build_all(const std::vector<Shape>& input_shapes) {
  name_uniquely(layers_, *this);
  std::vector<Tensor> sample = std::exchange(sample_, {});
  if (sample.empty()) sample = zeros_of(input_shapes);
  const c10::NoGradGuard no_grad;
  const layers::CallOptions options;
  const layers::CallContext context(sample, options, {.trial = true});
  num_outputs_ = call_all(sample, options).size();
  for (const layers::Layer& layer : layers_) {
    if (!layer.built()) refuse(str("the layer ", layer.name(), " is not called, so it cannot be built"));
    track_layer(layer.impl());
  }
}

std::vector<Shape> ModelImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  const c10::NoGradGuard no_grad;
  const std::vector<Tensor> zeros = zeros_of(input_shapes);
  const layers::CallOptions options;
  const layers::CallContext context(zeros, options, {.trial = true});
  std::vector<Shape> shapes;
  for (const Tensor& output : call_all(zeros, options)) {
    shapes.push_back(output.sizes().vec());
    if (!shapes.back().empty()) shapes.back()[0] = input_shapes[0][0];
  }
  return shapes;
}

std::vector<SymbolicTensor> ModelImpl::graph_inputs() const {
  throw Error(ErrorCode::failed_precondition,
              str(name(), ": the model is no graph of layers", built() ? "" : " before it is built",
                  "; call it on a place that Input made"));
}

std::vector<SymbolicTensor> ModelImpl::graph_outputs() const { return graph_inputs(); }

std::vector<std::string> ModelImpl::output_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < num_outputs_; ++i) names.push_back(str("output_", i + 1));
  return names;
}

Summary ModelImpl::summary() const {
  Summary summary{.model_name = name()};
  for (const layers::Layer& layer : layers_) summary.rows.push_back(summary_row(*layer.impl(), std::nullopt));
  add_totals(summary);
  return summary;
}

void ModelImpl::visit_state(StateVisitor& visitor) {
  LayerImpl::visit_state(visitor);
  if (!compiled_.optimizer) return;
  const std::vector<Tensor> variables = trainable_variables();
  compiled_.optimizer->build(variables);
  visitor.object("optimizer", *compiled_.optimizer->impl());
}

std::vector<layers::MaskedTensor> ModelImpl::predictions(const Batch& shard, const layers::CallOptions& options) const {
  require_built();
  std::vector<layers::MaskedTensor> inputs;
  inputs.reserve(shard.x.size());
  for (const Tensor& x : shard.x.values) inputs.push_back({x});
  return forward(inputs, options);
}

StepShare ModelImpl::train_step(const Batch& shard, const GlobalBatch& global) const {
  layers::AddedLosses added;
  const auto outputs = predictions(shard, {.training = true, .added_losses = &added});
  StepShare share = measure(shard, global, outputs, added);
  if (const std::vector<Tensor> variables = trainable_variables(); !variables.empty()) {
    const Tensor scaled = optimizer().scale_loss(share.losses[0]);
    optimizer().apply_gradients(gradients(scaled, variables), variables);
  }
  for (Tensor& loss : share.losses) loss = loss.detach();
  return share;
}

StepShare ModelImpl::test_step(const Batch& shard, const GlobalBatch& global) const {
  const c10::NoGradGuard no_grad;
  layers::AddedLosses added;
  const auto outputs = predictions(shard, {.training = false, .added_losses = &added});
  return measure(shard, global, outputs, added);
}

std::vector<Tensor> ModelImpl::predict_step(const Batch& shard) const {
  return outputs(shard.x.values, {.training = false});
}

StepShare ModelImpl::measure(const Batch& shard, const GlobalBatch& global,
                             const std::vector<layers::MaskedTensor>& predictions,
                             const layers::AddedLosses& added_losses) const {
  StepShare share = objectives()->share(shard, predictions, global.size);
  Tensor& loss = share.losses[0];
  const auto add_part = [&](const Tensor& part) { loss = loss.defined() ? loss + part : part; };
  for (const auto& [reduction, added] : added_losses) {
    if (reduction == ReduceOp::sum)
      add_part(added);
    else if (shard.size() > 0)
      add_part(added * (static_cast<double>(shard.size()) / static_cast<double>(global.size)));
  }
  for (const Tensor& penalty : losses()) add_part(penalty / global.num_replicas);
  if (!loss.defined()) refuse("the model has no loss; compile({.loss = …}), or let a layer add one by add_loss");
  return share;
}

void ModelImpl::settle(PerReplica<Batch>& shards) {
  check_batched(name(), shards[0]);
  if (!built()) build_for(shards[0]);
  for (size_t replica = 0; replica < shards.size(); ++replica) {
    Batch& shard = shards[replica];
    if (!shard.x.names.empty()) sort_by_name(shard.x, input_names(), "input", /*required=*/true);
    for (Tensors* part : {&shard.y, &shard.sample_weight})
      if (!part->names.empty()) sort_by_name(*part, output_names(), "output", /*required=*/false);
  }
}

void ModelImpl::build_for(const Batch& first) {
  std::vector<Shape> shapes;
  sample_.clear();
  for (const Tensor& x : first.x.values) {
    shapes.push_back(x.sizes().vec());
    shapes.back()[0] = kUnknown;
    sample_.push_back(at::zeros(x.slice(0, 0, 1).sizes(), x.options()));
  }
  try {
    strategy_.build([&] { build_once(shapes); });
  } catch (const Error& error) {
    if (std::ranges::none_of(first.x.values, [](const Tensor& x) { return x.dim() == 1; })) throw;
    throw Error(error.code(), str(error.what(), "; if the dataset gives single samples, batch it: dataset.batch(n)"),
                error.location());
  }
  sample_.clear();
}

std::shared_ptr<const CompiledOutputs> ModelImpl::objectives() const {
  const std::lock_guard lock(making_objectives_);
  if (!objectives_) objectives_ = make_objectives();
  return objectives_;
}

void ModelImpl::require_built() const {
  if (!built()) throw Error(ErrorCode::failed_precondition, str(name(), ": the model is not built; call build first"));
}

std::shared_ptr<const CompiledOutputs> ModelImpl::make_objectives() const {
  require_built();
  auto objectives = std::make_shared<const CompiledOutputs>(compiled_, output_names());
  if (compiled_.optimizer && !compiled_.optimizer->scales_loss() && computes_in_float16(*this))
    compiled_.optimizer = optimizers::LossScaleOptimizer(*compiled_.optimizer);
  return objectives;
}

void ModelImpl::run_step(Step step, PerReplica<Batch>& shards, const std::map<int64_t, double>& class_weight,
                         RunningLogs& running) {
  add_shares(step, shares_of_step(step, shards, class_weight), running);
}

void ModelImpl::add_shares(Step step, const BatchShares& shares, RunningLogs& running) const {
  running.add(shares.replicas, shares.batch_size, str(name(), step == Step::train ? ".fit" : ".evaluate"));
}

BatchShares ModelImpl::shares_of_step(Step step, PerReplica<Batch>& shards,
                                      const std::map<int64_t, double>& class_weight) {
  int64_t global_size = 0;
  for (size_t replica = 0; replica < shards.size(); ++replica) {
    Batch& shard = shards[replica];
    global_size += shard.size();
    if (!class_weight.empty()) shard.sample_weight = weigh_classes(shard, class_weight);
  }
  int64_t first_sample = 0;
  const auto& processes = strategy_.processes();
  if (processes) {
    std::vector<int64_t> sizes(static_cast<size_t>(processes->size()));
    const auto own = sizes.begin() + processes->rank();
    *own = global_size;
    strategy_.sum_over_processes(sizes, "size of the batch");
    first_sample = std::accumulate(sizes.begin(), own, int64_t{0});
    global_size = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  }
  const auto recorded = recorded_steps();
  const PerReplica<StepShare> here = !recorded             ? run_replicas(step, shards, global_size, first_sample)
                                     : step == Step::train ? recorded->train(shards, global_size, first_sample)
                                                           : recorded->test(shards, global_size, first_sample);
  return {processes ? shares_of_all_processes(*processes, here.values()) : here.values(), global_size};
}

PerReplica<StepShare> ModelImpl::run_replicas(Step step, const PerReplica<Batch>& shards, int64_t global_size,
                                              int64_t first_sample) const {
  const GlobalBatch global{.size = global_size, .num_replicas = strategy_.num_replicas_in_sync()};
  std::vector<layers::ShardPlace> places;
  for (const Batch& shard : shards) {
    places.push_back({.first_sample = first_sample, .num_samples = shard.size()});
    first_sample += shard.size();
  }
  const auto step_of = [&](const Batch& shard) {
    const layers::CallOptions options;
    const auto replica = static_cast<size_t>(std::max(0, ThreadView::current().replica));
    // For a step that calls its layers itself: masks go with tensors.
    const layers::CallContext context({}, options, {.shard = places[replica]});
    return step == Step::train ? train_step(shard, global) : test_step(shard, global);
  };
  return strategy_.run(step_of, shards);
}

PerReplica<std::vector<Tensor>> ModelImpl::predict_replicas(const PerReplica<Batch>& shards) const {
  return strategy_.run([this](const Batch& shard) { return predict_step(shard); }, shards);
}

std::shared_ptr<const RecordedSteps> ModelImpl::recorded_steps() const {
  // What ops bring from servers is not recorded, nor what replicas read of batches that are made in a scope.
  const bool eagerly = compiled_.run_eagerly && !is_compiled(strategy_);
  if (eagerly || RemoteReads::current() || ThreadView::current().scope) return nullptr;
  const std::lock_guard lock(making_objectives_);
  if (!recorded_steps_) recorded_steps_ = std::make_shared<const RecordedSteps>(*this);
  return recorded_steps_;
}

void ModelImpl::require_compiled(const char* function) const {
  if (is_compiled_) return;
  throw Error(ErrorCode::failed_precondition,
              str(name(), '.', function,
                  ": the model is not compiled; call compile({.optimizer = …, .loss = …}) first, without a loss if the "
                  "layers add one or the step is your own"));
}

void ModelImpl::add_totals(Summary& summary) const {
  summary.trainable = weight_totals(trained_weights());
  const SummaryTotals all = weight_totals(weights());
  summary.non_trainable = {.num = all.num - summary.trainable.num,
                           .num_bytes = all.num_bytes - summary.trainable.num_bytes};
  count_devices(weights(), summary);
  if (!compiled_.optimizer) return;
  SummaryTotals optimizer;
  for (const Tensor& tensor : compiled_.optimizer->impl()->state()) {
    optimizer.num += tensor.numel();
    optimizer.num_bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  if (optimizer.num > 0) summary.optimizer = optimizer;
}

}  // namespace tutti::keras
