#include "tutti/export/pt2/json_parts.h"

#include <cmath>

#include "tutti/core/json.h"

namespace tutti::saved_model::pt2 {

std::string json_list(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) {
    if (text.size() > 1) text += ", ";
    text += item;
  }
  return text + ']';
}

std::string json_object(std::initializer_list<std::pair<std::string_view, std::string>> members) {
  std::string text = "{";
  for (const auto& [key, value] : members) {
    if (text.size() > 1) text += ", ";
    text += json_text(key) + ": " + value;
  }
  return text + '}';
}

std::string json_kind(std::string_view kind, const std::string& value) { return json_object({{kind, value}}); }

std::string json_name(std::string_view name) { return json_object({{"name", json_text(name)}}); }

std::string json_tensor(std::string_view name) { return json_kind("as_tensor", json_name(name)); }

std::string json_integer(int64_t number) { return std::to_string(number); }

std::string json_float(double number) {
  if (std::isnan(number)) return "\"NaN\"";
  if (std::isinf(number)) return number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return json_number(number);
}

}  // namespace tutti::saved_model::pt2
