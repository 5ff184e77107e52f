#include "tutti/cluster/environment.h"

#include <unistd.h>

#include <charconv>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
Environment Environment::of_process() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t name_end = text.find('=');
    if (name_end != std::string_view::npos) variables.emplace(text.substr(0, name_end), text.substr(name_end + 1));
  }
  return variables;
}

const std::string& Environment::text(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) throw Error(ErrorCode::failed_precondition, str(name, " is not set"));
  return found->second;
}

int Environment::integer(std::string_view name, int low, int high) const {
  const std::string& digits = text(name);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < low || value > high)
    throw Error(ErrorCode::invalid_argument,
                str(name, " is ", visible(digits), "; it must be a whole number from ", low, " to ", high));
  return value;
}

std::string visible(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c < '\x7f' ? c : '?';
  return out + (text.size() > kShown ? "…'" : "'");
}

}  // namespace tutti::cluster
