#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tutti/pjrt/abi.h"

namespace tutti::pjrt {

// What a client is asked for, and what plugins and devices say of themselves.
using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue>;

// "[0, 1]", "TPU v5 lite".
std::string to_string(const NamedValue& value);

// In the C interface's form; refers to the values.
std::vector<abi::NamedValue> to_abi(const NamedValues& values);
// A copy. Throws: unimplemented for a value of a kind that is not known here.
NamedValues from_abi(std::span<const abi::NamedValue> values);

}  // namespace tutti::pjrt
