// Estimator::evaluate.
#include <chrono>
#include <ctime>
#include <utility>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/event_file_writer.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/kept_random_state_internal.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

// The numbers so far.
class RunningMetrics {
 public:
  void add(const std::vector<ReplicaResult>& replicas) {
    for (const ReplicaResult& replica : replicas) {
      loss_sum_ += replica.loss.item<double>();
      ++num_batches_;
    }
    for (const auto& [name, first] : replicas[0].metrics) {
      auto metric = metrics_.try_emplace(name, first.metric).first;
      std::vector<keras::metrics::Share> shares;
      for (const ReplicaResult& replica : replicas) shares.push_back(share_of(replica, name));
      metric->second.add(shares);
    }
  }

  Metrics result(int64_t global_step) const {
    Metrics result{{"global_step", static_cast<double>(global_step)},
                   {"loss", loss_sum_ / std::max<int64_t>(1, num_batches_)}};
    for (const auto& [name, metric] : metrics_) result[name] = metric.result().item<double>();
    return result;
  }

 private:
  static keras::metrics::Share share_of(const ReplicaResult& replica, const std::string& name) {
    const auto found = replica.metrics.find(name);
    if (found == replica.metrics.end())
      throw Error(ErrorCode::invalid_argument,
                  str("model_fn, mode eval: one replica has the metric '", name, "', and another one has not"));
    const EvalMetric& metric = found->second;
    return metric.metric.share(metric.y_true, metric.y_pred, metric.sample_weight);
  }

  double loss_sum_ = 0;
  int64_t num_batches_ = 0;
  std::map<std::string, keras::metrics::RunningMetric> metrics_;
};

// "global_step = 3, loss = 1.1251438"
std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += str(text.empty() ? "" : ", ", name, " = ", number_text(value));
  return text;
}

void write_events(const std::filesystem::path& folder, const Metrics& metrics, const std::string& checkpoint) {
  data::EventFileWriter events(folder);
  data::Event event{.step = static_cast<int64_t>(metrics.at("global_step"))};
  for (const auto& [name, value] : metrics)
    if (name != "global_step") event.values.push_back({.tag = name, .value = static_cast<float>(value)});
  event.values.push_back({.tag = "checkpoint_path", .value = checkpoint});
  events.write(event);
  events.close();
}

// What an evaluation logs after a step: about ten lines.
void log_step(int64_t step, std::optional<int64_t> steps) {
  if (!steps) return;
  if (step % std::max<int64_t>(1, *steps / 10) == 0 || step == *steps)
    log_info(str("Evaluation [", step, '/', *steps, ']'));
}

}  // namespace

Metrics Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) const {
  if (options.steps && *options.steps < 1)
    throw Error(ErrorCode::invalid_argument, str("evaluate: steps is ", *options.steps, "; it is positive"));
  require_hooks("evaluate", options.hooks);
  const OutsideOfScopes outside("Estimator::evaluate");
  const std::filesystem::path folder = eval_dir(options.name);
  auto checkpoint = options.checkpoint_path.empty() ? latest_checkpoint() : std::optional(options.checkpoint_path);
  if (!checkpoint)
    log_info(str("Could not find trained model in model_dir: ", model_dir().string(),
                 ", running initialization to evaluate."));
  const KeptRandomState kept;
  ModelRun run = state_->run(ModeKeys::eval);
  const auto input = input_fn(run.input_context());
  Hooks hooks = options.hooks;
  const auto begun = std::chrono::steady_clock::now();
  begin_session(
      run, run.create(first_batch(*input, ModeKeys::eval)), hooks,
      [] { log_info("Starting evaluation at " + time_text()); },
      [&] { restore_evaluated(run, checkpoint, !options.checkpoint_path.empty()); });

  RunningMetrics metrics;
  for (int64_t step = 1; !options.steps || step <= *options.steps; ++step) {
    RunContext context(run);
    call_hooks(hooks, &SessionRunHook::before_run, context);
    std::vector<Batch> batches;
    while (static_cast<int>(batches.size()) < run.num_replicas() && input->peek()) batches.push_back(*input->next());
    if (batches.empty()) break;
    const StepResult result = run.step(batches);
    metrics.add(result.replicas);
    log_step(step, options.steps);
    call_hooks(hooks, &SessionRunHook::after_run, context, result.values);
    if (context.stop_requested()) break;
  }
  call_hooks(hooks, &SessionRunHook::end, static_cast<Session&>(run));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  log_info(str("Inference Time : ", took.count(), 's'));
  log_info("Finished evaluation at " + time_text());

  const Metrics result = metrics.result(run.global_step());
  log_info(str("Saving dict for global step ", run.global_step(), ": ", metrics_text(result)));
  if (const auto processes = Processes::of_program(); !processes || processes->is_chief())
    write_events(folder, result, checkpoint ? checkpoint->string() : "");
  if (checkpoint)
    log_info(str("Saving 'checkpoint_path' summary for global step ", run.global_step(), ": ", checkpoint->string()));
  return result;
}

}  // namespace tutti::estimator
