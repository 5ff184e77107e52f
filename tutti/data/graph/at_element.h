#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace tutti::data::graph {

// Throws the exception that is being handled, of the same type, with "op: element index: " before its text where that
// can be done: for Error, c10::Error and the standard library's own logic and runtime errors. Others go on as they are,
// and a warning names the place.
[[noreturn]] void rethrow_at_element(const char* op, int64_t index);

// What an exception says.
std::string text_of(const std::exception_ptr& error);

// f(), a function of the user's for element `index` of the input of `op`.
template <class F>
decltype(auto) at_element(const char* op, int64_t index, const F& f) {
  try {
    return f();
  } catch (...) {
    rethrow_at_element(op, index);
  }
}

}  // namespace tutti::data::graph
