#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace tutti::tools {

// Writes what a process prints, whole lines at a time, each behind "[worker 1] ". A line longer than 64 KiB is broken.
class PrefixedLines {
 public:
  PrefixedLines(std::string prefix, std::ostream& out) : prefix_("[" + std::move(prefix) + "] "), out_(out) {}

  void add(std::string_view bytes);
  // Writes a last line that has no end.
  void finish();

 private:
  static constexpr size_t kMaxLine = 64 * 1024;

  void write_line();

  std::string prefix_, line_;
  std::ostream& out_;
};

}  // namespace tutti::tools
