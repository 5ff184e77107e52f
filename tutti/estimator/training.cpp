// Estimator::train.
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <utility>

#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/collectives/processes.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/data/event_file_writer.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/log.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::estimator {
namespace {

void check_steps(const TrainOptions& options) {
  if (options.steps && options.max_steps)
    throw Error(ErrorCode::invalid_argument, "train: steps and max_steps are given; give one of the two");
  const auto require_positive = [](const char* name, std::optional<int64_t> value) {
    if (value && *value < 1)
      throw Error(ErrorCode::invalid_argument, str("train: ", name, " is ", *value, "; it is positive"));
  };
  require_positive("steps", options.steps);
  require_positive("max_steps", options.max_steps);
}

// The library's hooks around the program's, in TensorFlow's order.
// What is written is the chief's work, but for checkpoints, of which each process has a part.
Hooks training_hooks(const RunConfig& config, const std::filesystem::path& model_dir, const TrainOptions& options,
                     bool is_chief) {
  const bool has_saver = std::ranges::any_of(
      options.hooks, [](const auto& hook) { return dynamic_cast<const CheckpointSaverHook*>(hook.get()) != nullptr; });
  const bool saves = config->save_checkpoints_steps.value_or(0) > 0 || config->save_checkpoints_secs.value_or(0) > 0;
  if (!saves && !has_saver && !options.saving_listeners.empty())
    throw Error(ErrorCode::invalid_argument,
                "train: there are saving_listeners, and nothing saves; set save_checkpoints_steps or "
                "save_checkpoints_secs of the RunConfig");
  Hooks hooks;
  if (saves && !has_saver) {
    const auto if_positive = [](auto value) { return value && *value > 0 ? value : std::nullopt; };
    hooks.push_back(std::make_shared<CheckpointSaverHook>(
        CheckpointSaverOptions{.save_secs = if_positive(config->save_checkpoints_secs),
                               .save_steps = if_positive(config->save_checkpoints_steps),
                               .listeners = is_chief ? options.saving_listeners : Listeners()}));
  }
  std::shared_ptr<data::EventFileWriter> events;
  if (is_chief && config->save_summary_steps > 0) events = std::make_shared<data::EventFileWriter>(model_dir);
  if (const auto every = config->log_step_count_steps)
    hooks.push_back(std::make_shared<StepCounterHook>(*every, events));
  if (events) hooks.push_back(std::make_shared<SummarySaverHook>(config->save_summary_steps, events));
  hooks.insert(hooks.end(), options.hooks.begin(), options.hooks.end());
  if (options.steps || options.max_steps)
    hooks.push_back(std::make_shared<StopAtStepHook>(
        StopAtStepOptions{.num_steps = options.steps, .last_step = options.max_steps}));
  hooks.push_back(std::make_shared<NanTensorHook>());
  if (const auto every = config->log_step_count_steps)
    hooks.push_back(std::make_shared<LoggingTensorHook>(std::vector<std::string>{"loss", "step"},
                                                        LoggingTensorOptions{.every_n_iter = every}));
  return hooks;
}

std::vector<Batch> take(BatchIterator& input, int count) {
  std::vector<Batch> batches;
  while (static_cast<int>(batches.size()) < count) {
    std::optional<Batch> batch = input.next();
    if (!batch) break;
    batches.push_back(*std::move(batch));
  }
  return batches;
}

void require_same_checkpoint(Processes& processes, const std::filesystem::path& model_dir,
                             const std::optional<std::filesystem::path>& checkpoint) {
  const std::string own = checkpoint ? checkpoint->filename().string() : "no checkpoint";
  const std::string chiefs = processes.on_chief("the checkpoint to go on from", [&] { return own; });
  if (processes.sum(own == chiefs ? 0 : 1, "who sees another checkpoint") == 0) return;
  throw Error(ErrorCode::failed_precondition,
              str("Estimator: ", processes.task_name(), " sees ", own, " in ", model_dir, ", and the chief ", chiefs,
                  " in its; model_dir is one folder that all processes share"));
}

// What a worker's step gave, if its input had a batch for it.
struct WorkerStep {
  bool has_batch = false;
  Tensor loss = {};
  std::map<std::string, Tensor> tensors = {};
};

constexpr int64_t kStepsOfRound = 4;  // of a worker

// One call of train.
class Training {
 public:
  // `input`: null where workers have one each.
  Training(ModelRun& run, BatchIterator* input, Hooks hooks)
      : run_(run),
        input_(input),
        hooks_(std::move(hooks)),
        makes_saver_(!hooks_.empty() && dynamic_cast<const CheckpointSaverHook*>(hooks_[0].get()) != nullptr) {
    run_.set_saver([this] { save(); });
  }

  void begin(const EstimatorSpec& spec, const std::optional<std::filesystem::path>& checkpoint,
             const std::optional<WarmStartSettings>& warm_start, const TrainOptions& options) {
    const auto made = [&] {
      if (makes_saver_) log_info("Create CheckpointSaverHook.");
    };
    begin_session(run_, spec, hooks_, made, [&] {
      if (checkpoint) {
        log_info(str("Restoring parameters from ", checkpoint->string()));
        run_.restore(*checkpoint, input_);
      } else if (warm_start) {
        initialize_from(run_.store(), *warm_start);
      }
      last_step_ = options.steps ? run_.global_step() + *options.steps : options.max_steps;
    });
  }

  void run_steps() {
    for (bool stops = false;;) {
      RunContext context(run_);
      if (!stops) call_hooks(hooks_, &SessionRunHook::before_run, context);
      const std::vector<Batch> batches = take(*input_, stops ? 0 : run_.num_replicas());
      if (!run_.everywhere(static_cast<int>(batches.size()) == run_.num_replicas())) break;
      const StepResult result = run_.step(batches);
      loss_ = result.values.loss;
      call_hooks(hooks_, &SessionRunHook::after_run, context, result.values);
      stops = context.stop_requested();
    }
    end();
  }

  // A round gives a step to each worker a few times. Nothing is under way when hooks hear of its steps: so a checkpoint
  // has those that it counts. The training ends where the input of a worker does.
  void run_rounds(const std::function<std::vector<WorkerStep>(int64_t num_steps)>& round, int64_t num_workers,
                  std::optional<int64_t> save_steps) {
    const int64_t first = run_.global_step();
    for (bool stops = false; !stops;) {
      RunContext context(run_);
      const int64_t step = run_.global_step();
      int64_t count = num_workers * kStepsOfRound;
      if (save_steps && *save_steps > 0) count = std::min(count, *save_steps - (step - first) % *save_steps);
      if (last_step_) count = std::min(count, *last_step_ - step);
      if (count <= 0) break;
      std::vector<WorkerStep> steps = round(count);
      stops = std::erase_if(steps, [](const WorkerStep& one) { return !one.has_batch; }) > 0;
      run_.store().set_global_step(step + static_cast<int64_t>(steps.size()));
      for (size_t i = 0; i < steps.size(); ++i) {
        loss_ = steps[i].loss;
        call_hooks(hooks_, &SessionRunHook::before_run, context);
        call_hooks(
            hooks_, &SessionRunHook::after_run, context,
            RunValues{
                .global_step = step + static_cast<int64_t>(i), .loss = loss_, .tensors = std::move(steps[i].tensors)});
      }
      stops |= context.stop_requested();
    }
    end();
  }

 private:
  void end() {
    ended_ = true;
    call_hooks(hooks_, &SessionRunHook::end, static_cast<Session&>(run_));
    // What was saved as a part of a training that goes on is the end of one.
    if (saved_with_input_ == run_.global_step()) run_.save(nullptr);
    log_info(loss_.defined() ? str("Loss for final step: ", number_text(loss_.item<double>()), '.')
                             : "Loss for final step: None.");
  }
  void save() {
    const bool is_last = ended_ || (last_step_ && run_.global_step() >= *last_step_);
    log_info(str("Saving checkpoints for ", run_.global_step(), " into ", (run_.model_dir() / "ckpt").string(), '.'));
    run_.save(is_last ? nullptr : input_);
    saved_with_input_ = is_last ? std::nullopt : std::optional(run_.global_step());
  }

  ModelRun& run_;
  BatchIterator* input_;
  Hooks hooks_;
  bool makes_saver_;  // of its own
  std::optional<int64_t> last_step_;
  bool ended_ = false;
  std::optional<int64_t> saved_with_input_;
  Tensor loss_;
};

// Every task makes the model; then workers compute steps, servers keep the variables, and the chief does the rest.
// `begin` makes what the chief runs, which has begun.
void train_by_workers(ParameterServerStrategy& strategy, ModelRun& run, const InputFn& input_fn,
                      const std::function<Training&(const EstimatorSpec& spec)>& begin,
                      std::optional<int64_t> save_steps) {
  const int num_workers = strategy.num_workers(), num_replicas = run.num_replicas();
  const auto input_of = [&](int worker) {
    return input_fn(
        {.num_input_pipelines = num_workers, .input_pipeline_id = worker, .num_replicas_in_sync = num_replicas});
  };
  const EstimatorSpec spec = run.create(first_batch(*input_of(0), ModeKeys::train));
  ClusterCoordinator coordinator(strategy);
  const auto inputs = coordinator.create_per_worker_value([&] { return input_of(current_worker_index()); });
  const auto step = coordinator.function(
      "an Estimator's step", [&](std::unique_ptr<BatchIterator>& input, int64_t global_step) -> WorkerStep {
        const std::vector<Batch> batches = take(*input, num_replicas);
        if (static_cast<int>(batches.size()) < num_replicas) return {.loss = at::scalar_tensor(0)};
        run.store().set_global_step(global_step);
        StepResult result = run.step(batches);
        return {.has_batch = true, .loss = result.values.loss, .tensors = std::move(result.values.tensors)};
      });
  coordinator.run([&] {
    begin(spec).run_rounds(
        [&](int64_t num_steps) {
          std::vector<RemoteValue<WorkerStep>> scheduled;
          for (int64_t i = 0; i < num_steps; ++i)
            scheduled.push_back(coordinator.schedule(step, inputs, run.global_step() + i));
          coordinator.join();
          return coordinator.fetch(scheduled);
        },
        num_workers, save_steps);
  });
}

}  // namespace

const Estimator& Estimator::train(const InputFn& input_fn, const TrainOptions& options) const {
  check_steps(options);
  require_hooks("train", options.hooks, options.saving_listeners);
  const OutsideOfScopes outside("Estimator::train");
  const auto checkpoint = latest_checkpoint();
  if (checkpoint && options.max_steps &&
      global_step_of({checkpoint::posix_file_system(), *checkpoint}) >= *options.max_steps) {
    log_info("Skipping training since max_steps has already saved.");
    return *this;
  }
  if (const auto seed = config()->tf_random_seed; seed && !checkpoint) set_random_seed(*seed);
  ModelRun run = state_->run(ModeKeys::train);
  if (const auto& processes = run.strategy().processes()) require_same_checkpoint(*processes, model_dir(), checkpoint);
  const auto hooks_of = [&](bool is_chief) { return training_hooks(config(), model_dir(), options, is_chief); };
  if (auto* const servers = served_strategy(config()->train_distribute)) {
    std::optional<Training> training;
    const auto begin = [&](const EstimatorSpec& spec) -> Training& {
      training.emplace(run, nullptr, hooks_of(true)).begin(spec, checkpoint, state_->warm_start, options);
      return *training;
    };
    train_by_workers(*servers, run, input_fn, begin, config()->save_checkpoints_steps);
    return *this;
  }
  const auto input = input_fn(run.input_context());
  Training training(run, input.get(), hooks_of(run.strategy().is_chief()));
  training.begin(run.create(first_batch(*input, ModeKeys::train)), checkpoint, state_->warm_start, options);
  training.run_steps();
  return *this;
}

}  // namespace tutti::estimator
