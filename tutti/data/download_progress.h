#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace tutti::data {

// "imdb.tar.gz [=====>    ] 42.1 of 84.1 MB, 5.3 MB/s": total 0 if it is unknown.
std::string progress_line(const std::string& name, int64_t done, int64_t total, std::chrono::duration<double> elapsed,
                          int64_t done_before = 0);

// A line on a terminal that is written anew, at most ten times a second, until the object ends.
class ProgressLine {
 public:
  ProgressLine(std::string name, std::ostream& out);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string name_;
  std::ostream& out_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
  int64_t done_before_ = -1;  // what was there when it began
  std::string line_;
};

}  // namespace tutti::data
