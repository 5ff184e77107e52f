#include "tutti/estimator/run_config.h"

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::estimator {

RunConfig::RunConfig(RunConfigOptions options, const cluster::Environment& environment)
    : options_(std::move(options)), task_(read_run_task(environment)) {
  if (!task_.model_dir.empty() && !options_.model_dir.empty() && task_.model_dir != options_.model_dir)
    throw Error(ErrorCode::invalid_argument,
                str("RunConfig: model_dir is '", options_.model_dir, "', and that of TF_CONFIG '", task_.model_dir,
                    "'; give one of them, or the same"));
  if (options_.model_dir.empty()) options_.model_dir = task_.model_dir;
  if (options_.save_checkpoints_secs == kUnlessBySteps)
    options_.save_checkpoints_secs = options_.save_checkpoints_steps ? std::nullopt : std::optional(600.0);
  check();
}

RunConfig RunConfig::replace(const std::function<void(RunConfigOptions& options)>& change) const {
  RunConfig changed = *this;
  RunConfigOptions& options = changed.options_;
  change(options);
  const bool sets_steps = options.save_checkpoints_steps != options_.save_checkpoints_steps;
  const bool sets_secs = options.save_checkpoints_secs != options_.save_checkpoints_secs;
  if (sets_steps && !sets_secs && options.save_checkpoints_steps) options.save_checkpoints_secs = {};
  if (sets_secs && !sets_steps && options.save_checkpoints_secs) options.save_checkpoints_steps = {};
  changed.check();
  return changed;
}

void RunConfig::check() const {
  const auto require = [](bool holds, const char* field, double value, const char* what) {
    if (!holds) throw Error(ErrorCode::invalid_argument, str("RunConfig: ", field, " is ", value, "; it is ", what));
  };
  const auto& secs = options_.save_checkpoints_secs;
  const auto& steps = options_.save_checkpoints_steps;
  if (secs && steps)
    throw Error(ErrorCode::invalid_argument,
                "RunConfig: save_checkpoints_steps and save_checkpoints_secs are given; give one of the two");
  if (steps) require(*steps >= 0, "save_checkpoints_steps", double(*steps), "0 or more");
  if (secs) require(*secs >= 0, "save_checkpoints_secs", *secs, "0 or more");
  require(options_.save_summary_steps >= 0, "save_summary_steps", double(options_.save_summary_steps), "0 or more");
  if (options_.keep_checkpoint_max)
    require(*options_.keep_checkpoint_max >= 0, "keep_checkpoint_max", double(*options_.keep_checkpoint_max),
            "0, which keeps all, or more");
  require(options_.keep_checkpoint_every_n_hours > 0, "keep_checkpoint_every_n_hours",
          options_.keep_checkpoint_every_n_hours, "positive");
  if (options_.log_step_count_steps)
    require(*options_.log_step_count_steps > 0, "log_step_count_steps", double(*options_.log_step_count_steps),
            "positive");
}

}  // namespace tutti::estimator
