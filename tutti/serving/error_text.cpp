#include "tutti/serving/error_text.h"

#include "tutti/core/json.h"

namespace tutti::serving {

std::string error_text(std::string_view what) {
  std::string text(what.substr(0, kMaxErrorBytes));
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  if (what.size() > kMaxErrorBytes && is_inside(what[kMaxErrorBytes])) {
    while (!text.empty() && is_inside(text.back())) text.pop_back();
    if (!text.empty()) text.pop_back();  // which began what was cut
  }
  if (!is_utf8(text))
    for (char& c : text)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return text;
}

}  // namespace tutti::serving
