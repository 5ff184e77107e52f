#include "tutti/tools/prefixed_lines.h"

#include <algorithm>

namespace tutti::tools {

void PrefixedLines::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t line_end = bytes.find('\n');
    const size_t taken = std::min({line_end, bytes.size(), kMaxLine - line_.size()});
    line_.append(bytes.substr(0, taken));
    if (taken == line_end || line_.size() == kMaxLine) write_line();
    bytes.remove_prefix(taken == line_end ? taken + 1 : taken);
  }
  out_.flush();
}

void PrefixedLines::finish() {
  if (!line_.empty()) write_line();
  out_.flush();
}

void PrefixedLines::write_line() {
  out_ << prefix_ << line_ << '\n';
  line_.clear();
}

}  // namespace tutti::tools
