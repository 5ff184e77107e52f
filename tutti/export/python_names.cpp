#include "tutti/export/python_names.h"

#include <algorithm>
#include <array>

#include "tutti/core/str.h"

namespace tutti::saved_model {
namespace {

constexpr std::array<std::string_view, 43> kTakenNames = {
    "False", "None",  "True",   "and",      "as",     "assert",  "async", "await",    "break",  "class",    "continue",
    "def",   "del",   "elif",   "else",     "except", "finally", "for",   "from",     "global", "if",       "import",
    "in",    "is",    "lambda", "nonlocal", "not",    "or",      "pass",  "raise",    "return", "try",      "while",
    "with",  "yield", "self",   "torch",    "device", "inf",     "nan",   "NoneType", "pytree", "fx_pytree"};

}  // namespace

std::string with_underscores(std::string_view name) {
  std::string made(name);
  for (char& c : made)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9')) c = '_';
  return made;
}

std::string PythonNames::add(std::string_view name) {
  std::string wanted = with_underscores(name);
  if (wanted.empty() || (wanted[0] >= '0' && wanted[0] <= '9')) wanted = '_' + wanted;
  std::string unique = wanted;
  while (std::ranges::find(kTakenNames, unique) != kTakenNames.end() || !taken_.insert(unique).second)
    unique = str(wanted, '_', ++counts_[wanted]);
  return unique;
}

}  // namespace tutti::saved_model
