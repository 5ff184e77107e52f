#include "tutti/keras/progress.h"

#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

namespace tutti::keras {
namespace {

std::string per_step(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0);
  if (seconds >= 1 || seconds == 0)
    out << seconds << "s/step";
  else if (seconds >= 1e-3)
    out << seconds * 1e3 << "ms/step";
  else
    out << seconds * 1e6 << "us/step";
  return out.str();
}

}  // namespace

std::string progress_line(int64_t steps, std::chrono::duration<double> elapsed, const Logs& logs) {
  std::ostringstream out;
  out << steps << '/' << steps << " - " << std::fixed << std::setprecision(0) << elapsed.count() << "s - "
      << per_step(steps > 0 ? elapsed.count() / static_cast<double>(steps) : 0) << std::setprecision(4);
  for (const auto& [name, value] : logs)
    out << " - " << name << ": " << (std::abs(value) > 1e-3 ? std::fixed : std::scientific) << value;
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
