#include "tutti/keras/progress.h"

#include <iomanip>
#include <ostream>
#include <sstream>

#include "tutti/keras/progress_text.h"

namespace tutti::keras {

std::string progress_line(int64_t steps, std::chrono::duration<double> elapsed, const Logs& logs) {
  std::ostringstream out;
  out << steps << '/' << steps << " - " << std::fixed << std::setprecision(0) << elapsed.count() << "s - "
      << step_time_text(steps > 0 ? elapsed.count() / static_cast<double>(steps) : 0) << metrics_text(logs);
  return out.str();
}

Progress::Progress(std::ostream& out, Verbose verbose) : out_(out), verbose_(verbose) {
  if (verbose_ == Verbose::automatic) verbose_ = Progbar::is_terminal(out) ? Verbose::progress_bar : Verbose::one_line;
}

void Progress::begin_epoch(int64_t epoch, int64_t epochs, int64_t steps) {
  start_ = std::chrono::steady_clock::now();
  target_ = steps;
  if (verbose_ != Verbose::silent && epochs > 1) out_ << "Epoch " << epoch + 1 << '/' << epochs << std::endl;
  if (verbose_ == Verbose::progress_bar)
    bar_.emplace(ProgbarOptions{.target = steps, .running_means = true, .out = &out_, .terminal = true});
}

void Progress::step(int64_t steps_done, const RunningLogs& running) {
  if (bar_ && steps_done != target_ && bar_->is_due()) bar_->update(steps_done, running.logs());
}

void Progress::end_epoch(int64_t steps, const Logs& logs) {
  if (bar_) {
    bar_->finish(steps, logs);
    bar_.reset();
  } else if (verbose_ != Verbose::silent) {
    out_ << progress_line(steps, std::chrono::steady_clock::now() - start_, logs) << std::endl;
  }
}

}  // namespace tutti::keras
