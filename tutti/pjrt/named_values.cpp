#include "tutti/pjrt/named_values.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::pjrt {
namespace {

NamedValue value_of(const abi::NamedValue& value, const std::string& name) {
  switch (value.type) {
    case abi::ValueType::string: return std::string(value.string_value, value.value_size);
    case abi::ValueType::int64: return value.int64_value;
    case abi::ValueType::int64_list:
      return std::vector<int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
    case abi::ValueType::float32: return value.float_value;
    case abi::ValueType::boolean: return value.bool_value;
  }
  throw Error(ErrorCode::unimplemented,
              str("the plugin's value \"", name, "\" is of kind ", static_cast<int>(value.type), ": 0 to 4 are known"));
}

}  // namespace

std::string to_string(const NamedValue& value) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return str_list(*list);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return str(*number);
  if (const auto* number = std::get_if<float>(&value)) return str(*number);
  return std::get<std::string>(value);
}

std::vector<abi::NamedValue> to_abi(const NamedValues& values) {
  std::vector<abi::NamedValue> all;
  for (const auto& [name, value] : values) {
    abi::NamedValue one{.name = name.data(), .name_size = name.size(), .value_size = 1};
    one.type = static_cast<abi::ValueType>(value.index());  // the alternatives are in the order of the kinds
    if (const auto* text = std::get_if<std::string>(&value)) {
      one.string_value = text->data();
      one.value_size = text->size();
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      one.int64_array_value = list->data();
      one.value_size = list->size();
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      one.int64_value = *number;
    } else if (const auto* real = std::get_if<float>(&value)) {
      one.float_value = *real;
    } else {
      one.bool_value = std::get<bool>(value);
    }
    all.push_back(one);
  }
  return all;
}

NamedValues from_abi(std::span<const abi::NamedValue> values) {
  NamedValues all;
  for (const abi::NamedValue& value : values) {
    std::string name(value.name, value.name_size);
    NamedValue copy = value_of(value, name);
    all.emplace(std::move(name), std::move(copy));
  }
  return all;
}

}  // namespace tutti::pjrt
