#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "tutti/distribute/strategy.h"
#include "tutti/estimator/run_task.h"

namespace tutti::estimator {

// A strategy that somebody else owns, or none.
class StrategyRef {
 public:
  StrategyRef() = default;
  StrategyRef(Strategy& strategy) : strategy_(&strategy) {}

  explicit operator bool() const { return strategy_ != nullptr; }
  Strategy* get() const { return strategy_; }

 private:
  Strategy* strategy_ = nullptr;
};

// What the loss of a step is under several replicas.
enum class LossScaling {
  per_replica,  // TensorFlow's: the mean of the replicas' losses (of sums, their sum), whatever their batches' sizes
  exact,        // of means, weighted by the rows of each replica's batch: that of one device on all rows
};

// Stands for "every 600 seconds, unless save_checkpoints_steps is given".
inline constexpr double kUnlessBySteps = -std::numeric_limits<double>::infinity();

struct RunConfigOptions {
  std::string model_dir = {};
  std::optional<uint64_t> tf_random_seed = {};  // set at the beginning of each training
  int64_t save_summary_steps = 100;             // 0: no summaries
  std::optional<int64_t> save_checkpoints_steps = {};
  std::optional<double> save_checkpoints_secs = kUnlessBySteps;  // none: by steps, or only none at all
  std::optional<int64_t> keep_checkpoint_max = 5;                // none or 0: all
  double keep_checkpoint_every_n_hours = 10000;
  std::optional<int64_t> log_step_count_steps = 100;
  StrategyRef train_distribute = {};  // outlives the config; none: one replica
  StrategyRef eval_distribute = {};
  LossScaling loss_scaling = LossScaling::per_replica;
  bool record_steps = true;  // false: the model function runs anew for each batch, to debug it
};

// How an Estimator runs. A value. Throws: invalid_argument for checkpoints by steps and by seconds at once, a number
// out of range, another model_dir than that of TF_CONFIG, and as read_run_task. TF: tf.estimator.RunConfig.
class RunConfig {
 public:
  RunConfig() : RunConfig(RunConfigOptions()) {}
  explicit RunConfig(RunConfigOptions options,
                     const cluster::Environment& environment = cluster::Environment::of_process());

  // A copy whose options `change` has changed. Of checkpoints by steps and by seconds, which exclude each other, the
  // one that it sets takes the place of the other. Throws: as the constructor.
  RunConfig replace(const std::function<void(RunConfigOptions& options)>& change) const;

  // Which task of a job this process is.
  const RunTask& task() const { return task_; }

  const RunConfigOptions& operator*() const { return options_; }
  const RunConfigOptions* operator->() const { return &options_; }

 private:
  void check() const;

  RunConfigOptions options_;
  RunTask task_;
};

}  // namespace tutti::estimator
