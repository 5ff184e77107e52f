#pragma once

#include <string>
#include <vector>

namespace tutti {

// Where the program is: addresses of code, the innermost first. Empty where this system cannot tell.
using CallPlace = std::vector<void*>;
CallPlace call_place();

// "train.cpp:42": the innermost line of a source that is neither this library's nor LibTorch's nor C++'s; empty where
// the program was compiled without debug information (-g). Slow: it reads that of the whole program.
std::string line_of(const CallPlace& place);

}  // namespace tutti
