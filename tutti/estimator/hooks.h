#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/data/event_file_writer.h"
#include "tutti/estimator/session_run_hook.h"

// The hooks that training has by itself, and those that programs add. TF: tf.estimator.…Hook
namespace tutti::estimator {

using Hooks = std::vector<std::shared_ptr<SessionRunHook>>;
using Listeners = std::vector<std::shared_ptr<CheckpointSaverListener>>;

// When a hook's turn comes: after so many steps, or so many seconds; exactly one of them. TF: SecondOrStepTimer.
class StepTimer {
 public:
  // Throws: invalid_argument for both, none, or one that is not positive.
  StepTimer(std::optional<int64_t> every_steps, std::optional<double> every_secs);
  bool should_trigger(int64_t step) const;
  // Returns the seconds and steps since the last time; nothing for the first.
  std::optional<std::pair<double, int64_t>> trigger(int64_t step);

 private:
  std::optional<int64_t> every_steps_;
  std::optional<double> every_secs_;
  std::optional<int64_t> last_step_;
  std::chrono::steady_clock::time_point last_time_;
};

struct StopAtStepOptions {
  std::optional<int64_t> num_steps = {};  // of this run
  std::optional<int64_t> last_step = {};  // of the global step
};
// Ends a training. Throws: invalid_argument unless one of the two is given.
class StopAtStepHook : public SessionRunHook {
 public:
  explicit StopAtStepHook(const StopAtStepOptions& options);
  void after_create_session(Session& session) override;
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  StopAtStepOptions options_;
};

struct LoggingTensorOptions {
  std::optional<int64_t> every_n_iter = {};
  std::optional<double> every_n_secs = {};
  bool at_end = false;
};
// Logs numbers of a step by their names: "loss", "step", and those of RunValues::tensors. In each step whose turn it is
// it waits for the devices. Throws: invalid_argument, in a step, for a name that there is not.
class LoggingTensorHook : public SessionRunHook {
 public:
  LoggingTensorHook(std::vector<std::string> tensors, const LoggingTensorOptions& options);
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  void log(const RunValues& values);

  std::vector<std::string> tensors_;
  StepTimer timer_;
  bool at_end_;
  int64_t iteration_ = 0;
  std::optional<RunValues> last_;
};

// Ends a training whose loss is not a number: with an error (failed_precondition), or quietly.
class NanTensorHook : public SessionRunHook {
 public:
  explicit NanTensorHook(bool fail_on_nan_loss = true) : fails_(fail_on_nan_loss) {}
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  bool fails_;
};

// Logs "global_step/sec: …", and writes it for TensorBoard.
class StepCounterHook : public SessionRunHook {
 public:
  explicit StepCounterHook(int64_t every_n_steps, std::shared_ptr<data::EventFileWriter> events = nullptr);
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  StepTimer timer_;
  std::shared_ptr<data::EventFileWriter> events_;
};

// Writes the loss and what summary::scalar named for TensorBoard.
class SummarySaverHook : public SessionRunHook {
 public:
  SummarySaverHook(int64_t save_steps, std::shared_ptr<data::EventFileWriter> events);
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  StepTimer timer_;
  std::shared_ptr<data::EventFileWriter> events_;
};

struct CheckpointSaverOptions {
  std::optional<double> save_secs = {};
  std::optional<int64_t> save_steps = {};
  Listeners listeners = {};
};
// Saves when the variables are there, in between, and at the end.
class CheckpointSaverHook : public SessionRunHook {
 public:
  explicit CheckpointSaverHook(CheckpointSaverOptions options);
  void begin() override;
  void after_create_session(Session& session) override;
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  bool save(Session& session, int64_t step);

  CheckpointSaverOptions options_;
  StepTimer timer_;
  std::optional<int64_t> last_saved_;
};

}  // namespace tutti::estimator
