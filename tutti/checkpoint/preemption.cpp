#include "tutti/checkpoint/preemption.h"

#include <csignal>
#include <cstdlib>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/release_queue.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

volatile std::sig_atomic_t g_terminated = 0;
bool g_has_handler = false;
struct sigaction g_previous;

void note_signal(int) { g_terminated = 1; }

void take_signal() {
  if (std::exchange(g_has_handler, true))
    throw Error(ErrorCode::failed_precondition,
                "PreemptionCheckpointHandler: another one takes SIGTERM in this process; keep one for all steps");
  g_terminated = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &g_previous);
}

}  // namespace

PreemptionCheckpointHandler::PreemptionCheckpointHandler(CheckpointManager& manager, TerminationConfig config)
    : manager_(manager), config_(std::move(config)) {
  manager_.restore_or_initialize();
  if (!config_.termination_watcher_fn) take_signal();
}

PreemptionCheckpointHandler::~PreemptionCheckpointHandler() {
  if (config_.termination_watcher_fn) return;
  sigaction(SIGTERM, &g_previous, nullptr);
  g_has_handler = false;
}

bool PreemptionCheckpointHandler::preempted() const {
  return config_.termination_watcher_fn ? config_.termination_watcher_fn() : g_terminated != 0;
}

void PreemptionCheckpointHandler::save_now() {
  try {
    manager_.wait();
  } catch (const std::exception& error) {  // of the save before; this one counts
    warn(str("the checkpoint before could not be saved: ", error.what()));
  }
  manager_.save();
  manager_.wait();
}

void PreemptionCheckpointHandler::save_checkpoint_if_preempted() {
  ReleaseQueue::of_this_thread()->release();
  const auto processes = Processes::of_program();
  const bool now = preempted();
  if (!(processes ? processes->sum(now, "whether to end") > 0 : now)) return;
  if (config_.save_fn) {
    config_.save_fn();
  } else {
    save_now();
  }
  if (config_.exit_fn) return config_.exit_fn();
  std::exit(128 + SIGTERM);
}

}  // namespace tutti
