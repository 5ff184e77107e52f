#include "tutti/tools/launch_places.h"

#include "tutti/core/str.h"

namespace tutti::tools {

LaunchPlaces::LaunchPlaces(int num_processes, int min_processes, int num_restarts)
    : min_processes_(min_processes),
      num_restarts_(num_restarts),
      num_left_(num_processes),
      restarts_left_(num_restarts) {}

void LaunchPlaces::note_end(bool has_finished) {
  const std::lock_guard lock(mutex_);
  --num_left_;
  has_finished_ = has_finished_ || has_finished;
}

void LaunchPlaces::note_start(int count) {
  const std::lock_guard lock(mutex_);
  num_left_ += count;
}

Verdict LaunchPlaces::judge(bool takes_part) {
  const std::lock_guard lock(mutex_);
  if (has_finished_) {  // what came too late for the run has not failed
    if (takes_part) return {};
    return {.kind = Verdict::Kind::goes_on, .why = "the run was over"};
  }
  if (Verdict again = start_again_locked(); again.kind == Verdict::Kind::starts_again) return again;
  if (num_left_ < min_processes_) return {};
  return {.kind = Verdict::Kind::goes_on, .why = str("the other ", num_left_, " go on")};
}

Verdict LaunchPlaces::start_again() {
  const std::lock_guard lock(mutex_);
  return has_finished_ ? Verdict{} : start_again_locked();
}

Verdict LaunchPlaces::start_again_locked() {
  if (restarts_left_ == 0) return {};
  const int attempt = num_restarts_ - --restarts_left_;
  ++num_left_;
  return {.kind = Verdict::Kind::starts_again,
          .why = str("it is started again, restart ", attempt, " of ", num_restarts_, ", and the others go on"),
          .attempt = attempt};
}

}  // namespace tutti::tools
