#include "tutti/estimator/train_and_evaluate.h"

#include <memory>
#include <set>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/evaluator_task.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorCode::invalid_argument, message);
}

// Evaluates what was saved.
class EvaluationListener : public CheckpointSaverListener {
 public:
  EvaluationListener(const Estimator& estimator, const TrainSpec& train_spec, const EvalSpec& spec)
      : estimator_(estimator), train_spec_(train_spec), spec_(spec) {}

  void begin() override { timer_.emplace(std::nullopt, std::max(spec_->throttle_secs, 1e-9)); }
  bool after_save(Session&, int64_t global_step) override {
    if (is_first_) {  // nothing was learnt yet
      is_first_ = false;
      return false;
    }
    if (timer_->should_trigger(global_step))
      evaluate(global_step);
    else
      log_info(str("Skip the current checkpoint eval due to throttle secs (", spec_->throttle_secs, " secs)."));
    return false;
  }
  void end(Session&, int64_t global_step) override {
    if (last_evaluated_ != global_step) evaluate(global_step);
  }

  const Metrics& metrics() const { return metrics_; }
  const Exports& exports() const { return exports_; }

 private:
  void evaluate(int64_t global_step) {
    timer_->trigger(global_step);
    last_evaluated_ = global_step;
    metrics_ =
        estimator_.evaluate(spec_->input_fn, {.steps = spec_->steps, .hooks = spec_->hooks, .name = spec_->name});
    exports_ = export_evaluated(estimator_, train_spec_, spec_, *estimator_.latest_checkpoint(), metrics_);
  }

  const Estimator& estimator_;
  const TrainSpec& train_spec_;
  const EvalSpec& spec_;
  std::optional<StepTimer> timer_;
  bool is_first_ = true;
  std::optional<int64_t> last_evaluated_;
  Metrics metrics_;
  Exports exports_;
};

}  // namespace

TrainSpec::TrainSpec(TrainSpecOptions options) : options_(std::move(options)) {
  require(static_cast<bool>(options_.input_fn), "TrainSpec: there is no input_fn");
  require(!options_.max_steps || *options_.max_steps > 0,
          str("TrainSpec: max_steps is ", options_.max_steps.value_or(0), "; it is positive"));
  require_hooks("TrainSpec", options_.hooks, options_.saving_listeners);
}

EvalSpec::EvalSpec(EvalSpecOptions options) : options_(std::move(options)) {
  require(static_cast<bool>(options_.input_fn), "EvalSpec: there is no input_fn");
  require(!options_.steps || *options_.steps > 0,
          str("EvalSpec: steps is ", options_.steps.value_or(0), "; it is positive"));
  require_hooks("EvalSpec", options_.hooks);
  require(options_.start_delay_secs >= 0,
          str("EvalSpec: start_delay_secs is ", options_.start_delay_secs, "; it is 0 or more"));
  require(options_.throttle_secs >= 0, str("EvalSpec: throttle_secs is ", options_.throttle_secs, "; it is 0 or more"));
  std::set<std::string> names;
  for (const auto& exporter : options_.exporters) {
    require(exporter != nullptr, "EvalSpec: an exporter is a null pointer");
    require(names.insert(exporter->name()).second,
            str("EvalSpec: two exporters are called '", exporter->name(), "'; each has a folder of its own"));
  }
  require(options_.patience_secs > 0, str("EvalSpec: patience_secs is ", options_.patience_secs, "; it is positive"));
}

std::pair<Metrics, Exports> train_and_evaluate(const Estimator& estimator, const TrainSpec& train_spec,
                                               const EvalSpec& eval_spec) {
  const RunConfigOptions& config = *estimator.config();
  const RunTask& task = estimator.config().task();
  if (task.is_evaluator()) return EvaluatorTask(estimator, train_spec, eval_spec).run();
  if (!task.cluster_spec.empty() || Processes::of_program() || served_strategy(config.train_distribute)) {
    estimator.train(train_spec->input_fn, {.hooks = train_spec->hooks,
                                           .max_steps = train_spec->max_steps,
                                           .saving_listeners = train_spec->saving_listeners});
    return {};
  }
  log_info("Running training and evaluation locally (non-distributed).");
  log_info(
      str("Start train and evaluate loop. The evaluate will happen after every checkpoint. Checkpoint frequency is "
          "determined based on RunConfig arguments: save_checkpoints_steps ",
          config.save_checkpoints_steps ? std::to_string(*config.save_checkpoints_steps) : "None",
          " or save_checkpoints_secs ",
          config.save_checkpoints_secs ? number_text(*config.save_checkpoints_secs) : "None", '.'));
  const auto evaluation = std::make_shared<EvaluationListener>(estimator, train_spec, eval_spec);
  Listeners listeners = train_spec->saving_listeners;
  listeners.push_back(evaluation);
  estimator.train(train_spec->input_fn,
                  {.hooks = train_spec->hooks, .max_steps = train_spec->max_steps, .saving_listeners = listeners});
  return {evaluation->metrics(), evaluation->exports()};
}

}  // namespace tutti::estimator
