#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::saved_model::pt2 {

// JSON, made of parts that are JSON already.
std::string json_list(const std::vector<std::string>& items);
std::string json_object(std::initializer_list<std::pair<std::string_view, std::string>> members);
// The form of torch.export for a value of one of several kinds: {"as_int": 3}.
std::string json_kind(std::string_view kind, const std::string& value);
// {"name": "x"}, {"as_tensor": {"name": "x"}}
std::string json_name(std::string_view name);
std::string json_tensor(std::string_view name);
std::string json_integer(int64_t number);
// A number that JSON does not have is text: "-Infinity".
std::string json_float(double number);

}  // namespace tutti::saved_model::pt2
