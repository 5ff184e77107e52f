#pragma once

#include <string>
#include <vector>

namespace tutti {

// Where the program is: the addresses to which calls return, the innermost first.
using CallPlace = std::vector<void*>;
CallPlace call_place();

// "train.cpp:42": the innermost line of a source that is neither this library's nor LibTorch's nor C++'s; empty where
// the program was compiled without debug information (-g), or addr2line of binutils is not there. Slow: it starts that.
std::string line_of(const CallPlace& place);

}  // namespace tutti
