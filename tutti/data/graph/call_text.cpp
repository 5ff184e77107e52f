#include "tutti/data/graph/call_text.h"

#include <array>
#include <charconv>

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {

std::string exact(double number) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::string abridged(const std::string& text) {
  constexpr size_t kShown = 400;
  if (text.size() <= 2 * kShown) return text;
  return str(text.substr(0, kShown), "... and ", text.size() - kShown, " bytes of checksum ",
             crc32c(text.data() + kShown, text.size() - kShown));
}

}  // namespace tutti::data::graph
