#include "tutti/keras/training_loops.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <deque>
#include <iostream>
#include <memory>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/free_threads.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/keras/callbacks/number_text.h"
#include "tutti/keras/epochs.h"
#include "tutti/keras/recorded_steps.h"
#include "tutti/keras/served_loops.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::training_loops {
namespace {

// fit, evaluate and predict work outside of the scope that may be active around them.
class OutsideOfScopes {
 public:
  OutsideOfScopes(const Model& model, const char* function) : outside_(required(str(model.name(), '.', function))) {}

 private:
  static ThreadView required(const std::string& function) {
    require_global_view(function, "it runs the replicas itself, call it outside of run");
    return {};
  }

  ThreadViewGuard outside_;
};

void check_positive(const char* function, const char* option, const std::optional<int64_t>& value) {
  if (value && *value < 1)
    throw Error(ErrorCode::invalid_argument, str(function, ": ", option, " is ", *value, "; it must be positive"));
}

// What a training with parameter servers asks of fit. TensorFlow's rules.
void check_servers(const Strategy& strategy, const FitOptions& options) {
  const auto* servers = dynamic_cast<const ParameterServerStrategy*>(&strategy);
  if (!servers) return;
  if (!servers->training() && servers->num_workers() > 1)
    throw Error(ErrorCode::unimplemented,
                str("fit: the process has ", servers->num_workers(),
                    " workers, of which fit would use one; make the strategy with one, or schedule functions"));
  if (!options.steps_per_epoch)
    throw Error(ErrorCode::invalid_argument,
                "fit: under a ParameterServerStrategy steps_per_epoch is needed, as workers go on without each other");
  if (!servers->training()) return;
  if (!ServedLoops::are_of(strategy))
    throw Error(ErrorCode::failed_precondition,
                "fit: a coordinator's run is under way, and fit is one of its own; call it outside, in every task");
  for (size_t i = 0; i < options.callbacks.size(); ++i)
    if (options.callbacks[i].has_train_batch_hooks())
      throw Error(ErrorCode::invalid_argument,
                  str("fit: callback ", i,
                      " does something at batches, of which workers train several at once; in a cluster of workers and "
                      "servers callbacks act on epochs. One whose on_train_batch_begin and on_train_batch_end do "
                      "nothing says so by has_train_batch_hooks()"));
}

// Whether a process wants to stop: then all do.
bool agreed(const Strategy& strategy, bool stop) {
  int64_t count = stop;
  strategy.sum_over_processes({&count, 1}, "whether to stop");
  return count > 0;
}

// Of several processes the chief prints; of workers without each other a line for an epoch, unless asked for more.
Verbose verbose_here(const Model& model, Verbose verbose) {
  const Strategy& strategy = model.model().strategy();
  if (verbose == Verbose::automatic && ServedLoops::are_of(strategy)) return Verbose::one_line;
  return strategy.is_chief() ? verbose : Verbose::silent;
}

// Steps that this process makes.
class StepsHere final : public StepRunner {
 public:
  StepsHere(const Model& model, const Batches& batches, std::optional<int64_t> steps, ModelImpl::Step step,
            std::map<int64_t, double> class_weight = {})
      : model_(model.model()), epochs_(model, batches, steps), step_(step), class_weight_(std::move(class_weight)) {}

  int64_t length() const override { return epochs_.length(); }

  // The batches of an execution are fetched before the first of its steps.
  int64_t run_epoch(std::optional<RunningLogs>& running, const Begin& begin, const End& end) override {
    epochs_.begin_epoch();
    int64_t num_steps = 0;
    bool goes_on = true;
    while (goes_on) {
      const int64_t steps_at_once = model_.compiled().steps_per_execution;
      auto batches = epochs_.next(steps_at_once);
      if (batches.empty()) break;
      RunningLogs& numbers = of_objectives(model_, running);
      begin(num_steps);
      for (PerReplica<Batch>& shards : batches) model_.run_step(step_, shards, class_weight_, numbers);
      num_steps += std::ssize(batches);
      goes_on = end(num_steps - 1, numbers) && std::ssize(batches) == steps_at_once;
    }
    return num_steps;
  }

 private:
  ModelImpl& model_;
  Epochs epochs_;
  const ModelImpl::Step step_;
  const std::map<int64_t, double> class_weight_;
};

struct Evaluation {
  Logs logs;
  int64_t num_steps;
};

Evaluation run_evaluation(const Model& model, StepRunner& steps, const std::vector<callbacks::Callback>& callbacks,
                          Progress& progress) {
  for (const auto& callback : callbacks) callback->on_test_begin(model);
  std::optional<RunningLogs> running;
  const auto begin = [&](int64_t batch) {
    for (const auto& callback : callbacks) callback->on_test_batch_begin(model, batch);
  };
  const auto end = [&](int64_t batch, const RunningLogs& so_far) {
    for (const auto& callback : callbacks) callback->on_test_batch_end(model, batch, so_far);
    progress.step(batch + 1, so_far);
    return true;
  };
  const int64_t num_steps = steps.run_epoch(running, begin, end);
  Logs logs = running->logs();
  for (const auto& callback : callbacks) callback->on_test_end(model, logs);
  return {std::move(logs), num_steps};
}

// The outputs of the replicas of all processes, in their order.
std::vector<std::vector<Tensor>> of_all_processes(const Strategy& strategy,
                                                  const PerReplica<std::vector<Tensor>>& here) {
  if (!strategy.processes()) return here.values();
  std::vector<Tensor> own;
  for (const std::vector<Tensor>& outputs : here) own.insert(own.end(), outputs.begin(), outputs.end());
  std::vector<std::vector<Tensor>> all;
  for (const std::vector<Tensor>& tensors : gather_tensors(*strategy.processes(), own, "predictions")) {
    const size_t num_outputs = tensors.size() / here.size();
    for (auto begin = tensors.begin(); begin != tensors.end(); begin += static_cast<std::ptrdiff_t>(num_outputs))
      all.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(num_outputs));
  }
  return all;
}

// The epochs of a fit.
History fit_by(const Model& model, StepRunner& steps, FunctionRef<std::unique_ptr<StepRunner>()> validation,
               const FitOptions& options, Verbose verbose, FreeThreads* threads) {
  const Strategy& strategy = model.model().strategy();
  Progress progress(std::cout, verbose);
  History history;
  Logs logs;
  callbacks::TrainingState state{
      .model = model, .initial_epoch = options.initial_epoch, .epochs = options.epochs, .steps = steps.length()};
  for (const auto& callback : options.callbacks) callback->on_train_begin(state);
  for (int64_t epoch = state.initial_epoch; epoch < options.epochs && !state.stop_training; ++epoch) {
    progress.begin_epoch(epoch, options.epochs, state.steps);
    for (const auto& callback : options.callbacks) callback->on_epoch_begin(state, epoch);
    std::optional<RunningLogs> running;
    const auto begin = [&](int64_t batch) {
      if (epoch == state.initial_epoch && batch == 0 && model.trainable_variables().empty())
        warn(str(model.name(), ".fit: the model does not have any trainable weights"));
      for (const auto& callback : options.callbacks) callback->on_train_batch_begin(state, batch);
    };
    const auto end = [&](int64_t batch, const RunningLogs& so_far) {
      for (const auto& callback : options.callbacks) callback->on_train_batch_end(state, batch, so_far);
      progress.step(batch + 1, so_far);
      if (threads) threads->look();
      return !(state.stop_training = agreed(strategy, state.stop_training));
    };
    const int64_t num_steps = steps.run_epoch(running, begin, end);
    if (!state.stop_training) state.steps = num_steps;
    logs = running->logs();
    if (const auto loss = logs.find("loss"); loss != logs.end() && !std::isfinite(loss->second))
      warn(str(model.name(), ".fit: the loss of epoch ", epoch + 1, " is ", callbacks::number_text(loss->second),
               "; callbacks::TerminateOnNaN() ends a training there"));
    if (options.validation_data && (epoch + 1) % options.validation_freq == 0) {
      Progress silent(std::cout, Verbose::silent);
      for (const auto& [name, value] : run_evaluation(model, *validation(), options.callbacks, silent).logs)
        logs["val_" + name] = value;
    }
    for (const auto& callback : options.callbacks) callback->on_epoch_end(state, epoch, logs);
    state.stop_training = agreed(strategy, state.stop_training);
    history.epoch.push_back(epoch);
    for (const auto& [name, value] : logs) history.history[name].push_back(value);
    progress.end_epoch(num_steps, logs);
  }
  const ModelImpl& impl = model.model();
  if (!history.epoch.empty() && impl.compiled().optimizer)
    impl.optimizer().finalize_variable_values(impl.trainable_variables());
  for (const auto& callback : options.callbacks) callback->on_train_end(state, logs);
  return history;
}

Logs evaluate_by(const Model& model, StepRunner& steps, const EvaluateOptions& options, Verbose verbose) {
  Progress progress(std::cout, verbose);
  progress.begin_epoch(0, 1, steps.length());
  Evaluation evaluation = run_evaluation(model, steps, options.callbacks, progress);
  progress.end_epoch(evaluation.num_steps, evaluation.logs);
  return std::move(evaluation.logs);
}

// `start` begins with a batch; what it returns gives the outputs of each replica. `window` batches may be under way.
using Outputs = ServedLoops::Outputs;
std::vector<Tensor> predict_by(const Model& model, const Batches& batches, const PredictOptions& options,
                               FunctionRef<std::function<Outputs()>(const PerReplica<Batch>&)> start, size_t window) {
  Epochs epochs(model, batches, options.steps);
  std::vector<std::vector<Tensor>> parts;  // of each output, those of the shards
  std::deque<std::function<Outputs()>> under_way;
  int64_t handed_out = 0, done = 0;
  const auto take = [&] {
    for (const std::vector<Tensor>& outputs : under_way.front()()) {
      parts.resize(outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i)
        parts[i].push_back(parts[i].empty() ? outputs[i] : outputs[i].to(parts[i][0].device()));
    }
    under_way.pop_front();
    for (const auto& callback : options.callbacks) callback->on_predict_batch_end(model, done);
    ++done;
  };
  for (const auto& callback : options.callbacks) callback->on_predict_begin(model);
  epochs.begin_epoch();
  while (const auto shards = epochs.next()) {
    for (const auto& callback : options.callbacks) callback->on_predict_batch_begin(model, handed_out);
    ++handed_out;
    under_way.push_back(start(*shards));
    if (under_way.size() >= window) take();
  }
  while (!under_way.empty()) take();
  for (const auto& callback : options.callbacks) callback->on_predict_end(model);
  std::vector<Tensor> outputs;
  for (const std::vector<Tensor>& pieces : parts) outputs.push_back(at::cat(pieces));
  return outputs;
}

}  // namespace

History fit(const Model& model, const Batches& batches, const FitOptions& options) {
  model.model().require_compiled("fit");
  check_positive("fit", "steps_per_epoch", options.steps_per_epoch);
  check_positive("fit", "validation_steps", options.validation_steps);
  check_positive("fit", "validation_freq", options.validation_freq);
  const OutsideOfScopes outside(model, "fit");
  const Strategy& strategy = model.model().strategy();
  check_servers(strategy, options);
  std::optional<FreeThreads> free;
  if (options.threads == FitThreads::free && strategy.num_replicas_in_sync() == 1) free.emplace();
  FreeThreads* const threads = free ? &*free : nullptr;
  const Verbose verbose = verbose_here(model, options.verbose);
  using Step = ModelImpl::Step;
  if (!ServedLoops::are_of(strategy)) {
    StepsHere steps(model, batches, options.steps_per_epoch, Step::train, options.class_weight);
    const auto validation = [&]() -> std::unique_ptr<StepRunner> {  // the same batches each time
      return std::make_unique<StepsHere>(model, *options.validation_data, options.validation_steps, Step::test);
    };
    return fit_by(model, steps, validation, options, verbose, threads);
  }
  ServedLoops loops(model, batches, ServedFit{.class_weight = options.class_weight, .threads = threads});
  return loops.run([&] {
    const auto steps = loops.training(*options.steps_per_epoch);
    const auto validation = [&] { return loops.evaluation(model, *options.validation_data, options.validation_steps); };
    return fit_by(model, *steps, validation, options, verbose, threads);
  });
}

Logs evaluate(const Model& model, const Batches& batches, const EvaluateOptions& options) {
  model.model().require_compiled("evaluate");
  check_positive("evaluate", "steps", options.steps);
  const OutsideOfScopes outside(model, "evaluate");
  const Verbose verbose = verbose_here(model, options.verbose);
  if (!ServedLoops::are_of(model.model().strategy())) {
    StepsHere steps(model, batches, options.steps, ModelImpl::Step::test);
    return evaluate_by(model, steps, options, verbose);
  }
  ServedLoops loops(model, batches);
  return loops.run([&] {
    const auto steps = loops.evaluation(model, batches, options.steps);
    return evaluate_by(model, *steps, options, verbose);
  });
}

std::vector<Tensor> predict(const Model& model, const Batches& batches, const PredictOptions& options) {
  check_positive("predict", "steps", options.steps);
  const c10::NoGradGuard no_grad;
  const OutsideOfScopes outside(model, "predict");
  const ModelImpl& impl = model.model();
  if (ServedLoops::are_of(impl.strategy())) {
    ServedLoops loops(model, batches);
    const auto start = [&](const PerReplica<Batch>& shards) { return loops.predict(shards); };
    return loops.run([&] { return predict_by(model, batches, options, start, loops.window()); });
  }
  const auto recorded = impl.recorded_steps();
  const auto start = [&](const PerReplica<Batch>& shards) -> std::function<Outputs()> {
    const auto here = recorded ? recorded->predict(shards) : impl.predict_replicas(shards);
    return [all = of_all_processes(impl.strategy(), here)] { return all; };
  };
  return predict_by(model, batches, options, start, 1);
}

Logs on_batch(const Model& model, const Batch& batch, const char* function, ModelImpl::Step step) {
  ModelImpl& impl = model.model();
  impl.require_compiled(function);
  const OutsideOfScopes outside(model, function);
  if (ServedLoops::are_of(impl.strategy()))
    throw Error(ErrorCode::unimplemented,
                str(function,
                    ": in a cluster of workers and servers no task has the batch that another one trains on; "
                    "use fit and evaluate, or schedule functions of a ClusterCoordinator"));
  const Batches batches =
      Batches::from_tensors(batch, {.batch_size = std::max<int64_t>(batch.x.empty() ? 1 : batch.size(), 1)});
  StepsHere steps(model, batches, std::nullopt, step);
  std::optional<RunningLogs> running;
  const auto begin = [](int64_t) {};
  const auto end = [](int64_t, const RunningLogs&) { return true; };
  steps.run_epoch(running, begin, end);
  return running->logs();
}

}  // namespace tutti::keras::training_loops
