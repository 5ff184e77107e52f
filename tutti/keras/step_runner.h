#pragma once

#include <cstdint>
#include <optional>

#include "tutti/core/function_ref.h"
#include "tutti/keras/model_impl.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras {

// Who makes the steps of epochs, or of an evaluation: this process, or workers for it.
class StepRunner {
 public:
  using Begin = FunctionRef<void(int64_t batch)>;
  using End = FunctionRef<bool(int64_t batch, const RunningLogs& so_far)>;

  virtual ~StepRunner() = default;

  // The number of steps of an epoch; negative where it is not known.
  virtual int64_t length() const = 0;
  // Makes a step on every batch of the next epoch, and adds its numbers. `begin` and `end` are called around each
  // steps_per_execution of them; `end` returns whether to go on. Returns the number of steps.
  virtual int64_t run_epoch(std::optional<RunningLogs>& running, const Begin& begin, const End& end) = 0;

 protected:
  // A callback may have compiled anew; the numbers then begin anew too.
  static RunningLogs& of_objectives(const ModelImpl& model, std::optional<RunningLogs>& running) {
    if (const auto objectives = model.objectives(); !running || running->objectives() != objectives)
      running.emplace(objectives);
    return *running;
  }
};

}  // namespace tutti::keras
