#pragma once

#include <string>

#include "check.h"
#include "program.h"

namespace tutti::fuzz {

// "x0", "y2", "std::get<1>(y2)": as the printed program names it.
std::string slot_name(const Program& program, int slot);
// "add.Tensor", "backward"
std::string statement_name(const Statement& statement);
// "add.Tensor, backward"
std::string statement_names(const Program& program);
std::string values_text(const Tensor& tensor);

// A C++ program that repeats what the verdict says.
std::string to_cpp(const Program& program, const Verdict& verdict);

}  // namespace tutti::fuzz
