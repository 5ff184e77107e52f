#pragma once

#include <sstream>
#include <string>

namespace tutti {

// The arguments, written one after the other as operator<< writes them.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "[2, 3]" from any range whose elements operator<< can write.
template <class Range>
std::string str_list(const Range& range) {
  std::ostringstream out;
  out << '[';
  bool first = true;
  for (const auto& element : range) {
    out << (first ? "" : ", ") << element;
    first = false;
  }
  out << ']';
  return out.str();
}

}  // namespace tutti
