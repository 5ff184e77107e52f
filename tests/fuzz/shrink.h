#pragma once

#include "check.h"

namespace tutti::fuzz {

// The verdict of the program in a process of its own: one that crashes has one too. Must be called before this process
// has threads.
Verdict check_in_child(const Program& program);

// The shortest program found that has a verdict of the same kind; `verdict` becomes that program's.
Program shrink(Program program, Verdict& verdict, int seconds);

}  // namespace tutti::fuzz
