// Estimator::predict.
#include <deque>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

data::Columns chosen(const data::Columns& all, const std::vector<std::string>& keys) {
  if (keys.empty()) return all;
  data::Columns columns;
  for (const std::string& key : keys)
    if (all.contains(key)) columns.set(key, all.at(key));
  if (columns.size() == 0)
    throw Error(ErrorCode::invalid_argument,
                str("predict: predict_keys are ", str_list(keys), ", and the predictions ", str_list(all.names())));
  return columns;
}

// The predictions of each example of a batch.
std::deque<data::Columns> rows_of(const data::Columns& batch) {
  std::optional<int64_t> rows;
  const auto count = [&](const std::string& name, int64_t size) {
    if (rows && *rows != size)
      throw Error(ErrorCode::invalid_argument,
                  str("predict: '", name, "' has ", size, " rows, and the predictions before it ", *rows,
                      "; with yield_single_examples each has one for each example"));
    rows = size;
  };
  for (const auto& [name, value] : batch.numbers) count(name, value.dim() == 0 ? -1 : value.size(0));
  for (const auto& [name, value] : batch.strings) count(name, value.rank() == 0 ? -1 : value.shape()[0]);
  if (rows == -1)
    throw Error(ErrorCode::invalid_argument,
                "predict: a prediction is a scalar; with yield_single_examples each has a row for each example");
  std::deque<data::Columns> examples;
  for (int64_t row = 0; row < rows.value_or(0); ++row) {
    data::Columns& example = examples.emplace_back();
    for (const auto& [name, value] : batch.numbers) example.numbers[name] = value.select(0, row);
    for (const auto& [name, value] : batch.strings) example.strings[name] = value.row(row);
  }
  return examples;
}

}  // namespace

data::Dataset<data::Columns> Estimator::predict(const InputFn& input_fn, const PredictOptions& options) const {
  require_hooks("predict", options.hooks);
  const auto checkpoint =
      options.checkpoint_path.empty() ? latest_checkpoint() : std::optional(options.checkpoint_path);
  if (!checkpoint)
    log_info(str("Could not find trained model in model_dir: ", model_dir().string(),
                 ", running initialization to predict."));
  // What one pass over the predictions is at.
  struct Pass {
    std::shared_ptr<const State> state;
    ModelRun run;
    std::unique_ptr<BatchIterator> input;
    Hooks hooks;
    std::deque<data::Columns> waiting = {};
    std::optional<std::filesystem::path> checkpoint;
    bool begun = false, stops = false, ended = false;
  };
  return data::from_generator([state = state_, input_fn, options, checkpoint] {
    const OutsideOfScopes of_input("Estimator::predict");
    const std::shared_ptr<Pass> pass(
        new Pass{state, state->run(ModeKeys::predict), input_fn({}), options.hooks, {}, checkpoint});
    return [pass, options]() -> std::optional<data::Columns> {
      const OutsideOfScopes outside("Estimator::predict");
      if (!pass->begun && pass->input->peek()) {
        begin_session(
            pass->run, pass->run.create(first_batch(*pass->input, ModeKeys::predict)), pass->hooks, [] {},
            [&] { restore_evaluated(pass->run, pass->checkpoint, !options.checkpoint_path.empty()); });
        pass->begun = true;
      }
      while (pass->waiting.empty()) {
        if (pass->ended || !pass->begun) return {};
        RunContext context(pass->run);
        if (!pass->stops) call_hooks(pass->hooks, &SessionRunHook::before_run, context);
        const std::optional<Batch> batch = pass->stops ? std::nullopt : pass->input->next();
        if (!batch) {
          call_hooks(pass->hooks, &SessionRunHook::end, static_cast<Session&>(pass->run));
          pass->ended = true;
          return {};
        }
        const StepResult result = pass->run.step({*batch});
        call_hooks(pass->hooks, &SessionRunHook::after_run, context, result.values);
        pass->stops = context.stop_requested();
        data::Columns predictions = chosen(result.replicas[0].predictions, options.predict_keys);
        if (!options.yield_single_examples) return predictions;
        pass->waiting = rows_of(predictions);
      }
      data::Columns example = std::move(pass->waiting.front());
      pass->waiting.pop_front();
      return example;
    };
  });
}

}  // namespace tutti::estimator
