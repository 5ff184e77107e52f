#pragma once

#include <functional>
#include <utility>

#include "tutti/checkpoint/checkpoint_manager.h"

namespace tutti {

// What a preemption is, and what follows it. TF: tf.distribute.experimental.TerminationConfig.
struct TerminationConfig {
  std::function<bool()> termination_watcher_fn = {};  // whether the process must end soon; empty: SIGTERM came
  std::function<void()> save_fn = {};                 // empty: the manager's save() and wait()
  std::function<void()> exit_fn = {};                 // empty: std::exit(143)
};

// Training that a SIGTERM ends with a checkpoint: the signal is noted, and the next step is preceded by one save and
// the end of the process with exit code 143 (128 + SIGTERM), which job schedulers restart. The newest checkpoint is
// restored when this is made. One at a time takes the signal. Processes that train together make the same calls: where
// one has the signal, all save before the same step, and all end. TF: PreemptionCheckpointHandler.
class PreemptionCheckpointHandler {
 public:
  // Throws: as CheckpointManager::restore_or_initialize; failed_precondition if another one has the signal.
  explicit PreemptionCheckpointHandler(CheckpointManager& manager, TerminationConfig config = {});
  ~PreemptionCheckpointHandler();
  PreemptionCheckpointHandler(const PreemptionCheckpointHandler&) = delete;
  PreemptionCheckpointHandler& operator=(const PreemptionCheckpointHandler&) = delete;

  // One step of training: save_checkpoint_if_preempted(), then step().
  template <class Step>
  decltype(auto) run(Step&& step) {
    save_checkpoint_if_preempted();
    return std::forward<Step>(step)();
  }

  // Whether this process is to end.
  bool preempted() const;
  void save_checkpoint_if_preempted();

 private:
  void save_now();

  CheckpointManager& manager_;
  TerminationConfig config_;
};

}  // namespace tutti
