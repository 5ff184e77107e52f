#pragma once

#include <string>
#include <vector>

#include "tutti/core/log.h"

namespace tutti {

// The library's warnings while it lives, in place of lines on stderr.
class CollectedWarnings {
 public:
  CollectedWarnings() : previous_(set_warning_sink([this](const std::string& line) { lines_.push_back(line); })) {}
  ~CollectedWarnings() { set_warning_sink(previous_); }
  CollectedWarnings(const CollectedWarnings&) = delete;
  CollectedWarnings& operator=(const CollectedWarnings&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }
  void clear() { lines_.clear(); }

 private:
  std::vector<std::string> lines_;
  WarningSink previous_;
};

}  // namespace tutti
