#pragma once

#include "check.h"

namespace tutti::fuzz {

// Runs the program five times as it is, on plain tensors or on a mesh, and five times as a recorded function, and
// compares every bit: inputs that need a gradient, and every second other one, stay the same tensors; the others are
// arguments with other values each time. A program that cannot be recorded, and says so, is "invalid".
Verdict check_recorded(const Program& program);
// Those runs of LibTorch alone, on plain tensors.
void run_plainly(Program program);

}  // namespace tutti::fuzz
