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

void Progress::begin_epoch(int64_t epoch, int64_t epochs) {
  start_ = std::chrono::steady_clock::now();
  if (verbose_ != Verbose::silent && epochs > 1) out_ << "Epoch " << epoch + 1 << '/' << epochs << std::endl;
}

void Progress::end_epoch(int64_t steps, const Logs& logs) {
  if (verbose_ != Verbose::silent)
    out_ << progress_line(steps, std::chrono::steady_clock::now() - start_, logs) << std::endl;
}

}  // namespace tutti::keras
