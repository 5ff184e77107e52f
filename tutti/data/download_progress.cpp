#include "tutti/data/download_progress.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>

namespace tutti::data {
namespace {

constexpr int64_t kWidth = 30;  // of the bar

}  // namespace

std::string progress_line(const std::string& name, int64_t done, int64_t total, std::chrono::duration<double> elapsed,
                          int64_t done_before) {
  std::ostringstream line;
  line << std::fixed << std::setprecision(1) << name << ' ';
  const double megabytes = static_cast<double>(done) / 1e6;
  if (total > 0) {
    const auto filled = static_cast<size_t>(kWidth * std::min(done, total) / total);
    const std::string bar = std::string(filled, '=') + (done < total ? ">" : "");
    line << '[' << bar << std::string(kWidth + 1 - std::min<size_t>(bar.size(), kWidth + 1), ' ') << "] " << megabytes
         << " of " << static_cast<double>(total) / 1e6 << " MB";
  } else {
    line << megabytes << " MB";
  }
  if (elapsed.count() > 0) line << ", " << static_cast<double>(done - done_before) / 1e6 / elapsed.count() << " MB/s";
  return line.str();
}

ProgressLine::ProgressLine(std::string name, std::ostream& out) : name_(std::move(name)), out_(out) {}

ProgressLine::~ProgressLine() {
  if (!line_.empty()) out_ << '\r' << line_ << std::endl;
}

void ProgressLine::show(int64_t done, int64_t total) {
  if (done_before_ < 0) done_before_ = done;
  const auto now = Clock::now();
  const size_t width = line_.size();
  line_ = progress_line(name_, done, total, now - start_, done_before_);
  line_ += std::string(width > line_.size() ? width - line_.size() : 0, ' ');
  if (now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  out_ << '\r' << line_ << std::flush;
}

}  // namespace tutti::data
