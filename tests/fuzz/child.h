#pragma once

#include <functional>
#include <string>

namespace tutti::fuzz {

// How a child process ended that a function ran in.
struct ChildEnd {
  std::string text;     // what the function gave out, as far as it came
  std::string failure;  // "ends by signal 11 (Segmentation fault)", "takes too long"; empty: it returned
};

// Runs f in a child process, which must be forked before this process has threads. f gives out text as it goes.
ChildEnd in_child(const std::function<void(const std::function<void(const std::string&)>& give)>& f, int seconds);

}  // namespace tutti::fuzz
