#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti {

// What a catcher can do about an error; the names are TensorFlow's.
enum class ErrorCode {
  cancelled,            // another party failed first; its error is the one to read
  invalid_argument,     // the call can never succeed as it was made
  deadline_exceeded,    // a wait ran out
  not_found,            // a named thing does not exist
  already_exists,       // a name is taken
  failed_precondition,  // the object is not in the state that the call needs
  out_of_range,         // past the end of what there is
  unimplemented,        // right in principle, not supported here
  resource_exhausted,   // no room is left: a disk is full
  unavailable,          // a peer is lost; trying again may succeed
  data_loss,            // stored bytes are damaged
  internal,             // a defect of this library
};

std::string_view to_string(ErrorCode code);

// The one exception type that this library throws of its own accord. what() says what was seen, what is required,
// where, and the way out; location() is the line of user code that called in, where the function takes one.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::source_location location = std::source_location::current());

  ErrorCode code() const { return code_; }
  const std::source_location& location() const { return location_; }

 private:
  ErrorCode code_;
  std::source_location location_;
};

// "file.cpp:12" for messages; the folder is left out.
std::string to_string(const std::source_location& location);

}  // namespace tutti
