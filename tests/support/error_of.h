#pragma once

#include <exception>
#include <optional>
#include <string>

#include "tutti/core/error.h"

namespace tutti {

// "code: text" of the Error that f throws.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

// The text of whatever exception f throws.
template <class F>
std::string what_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// Its code alone.
template <class F>
std::optional<ErrorCode> code_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

}  // namespace tutti
