#pragma once

#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/function/program.h"

namespace tutti {

// A part of a program as a program of its own: what it uses of the whole are its arguments.
struct SubProgram {
  Program program;
  std::vector<int> inputs;  // for each argument the buffer of the whole that it is: its memory from the first byte on
};

// Of calls that were made while `whole` was recorded, and that are none of its own. `results`: values of the whole.
// `inputs`: buffers that are arguments in any case, and come first. Others follow in the order in which they are used.
SubProgram sub_program(const Program& whole, const std::vector<Program::Call>& calls, const std::vector<int>& results,
                       FunctionRef<bool(int buffer)> is_made_inside, std::vector<int> inputs = {});

// Leaves buffers out that no call of the program itself uses, and all values that nothing uses.
void leave_out(Program& program, FunctionRef<bool(int buffer)> is_left_out);

}  // namespace tutti
