#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tutti/export/program.h"

namespace tutti::saved_model::pt2 {

// "s0" of "Symbol('s0', positive=True, integer=True)"; nothing for another expression.
std::optional<std::string> symbol_of(std::string_view expression);

// What a node of Python's operators gives of two integers: "_operator.add". Nothing for an operator that programs do
// not have, for products of more than two sizes, and for numbers beyond int64.
std::optional<Integer> computed(std::string_view target, const Integer& a, const Integer& b);

}  // namespace tutti::saved_model::pt2
